//go:build !linux

package loligotest

import "syscall"

// dieWithParent does nothing where the system has no such means.
func dieWithParent() *syscall.SysProcAttr {
	return nil
}
