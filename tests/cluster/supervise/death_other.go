//go:build !linux

package main

import "syscall"

// childAttributes has nothing to offer where there is no parent-death signal:
// there a SIGKILL of the supervisor itself leaves its children behind.
func childAttributes() *syscall.SysProcAttr { return nil }
