package loligotest

import "syscall"

// dieWithParent has the program end with the test's process, also if that is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
