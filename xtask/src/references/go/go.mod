module reference

go 1.26
