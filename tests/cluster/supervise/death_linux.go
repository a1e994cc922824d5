package main

import "syscall"

// childAttributes makes the kernel end a child when the supervisor itself is
// killed and so cannot do it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
