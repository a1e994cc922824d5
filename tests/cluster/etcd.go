package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func init() {
	components["etcd"] = func() { etcdmain.Main(os.Args) }
}
