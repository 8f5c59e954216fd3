package loligotest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// needBinary leaves a test out where there is no program.
func needBinary(t *testing.T) {
	t.Helper()
	if _, err := Find(); err != nil {
		t.Skipf("left out: %v", err)
	}
}

func TestObjectsOfATest(t *testing.T) {
	needBinary(t)
	server := Start(t, Pools("one", "two"))
	put := server.Loligo("-p", "two", "put", "greeting", "-")
	put.Stdin = strings.NewReader("hello")
	if said, err := put.CombinedOutput(); err != nil {
		t.Fatalf("put: %v: %s", err, said)
	}
	got, err := server.Loligo("-p", "two", "get", "greeting", "-").Output()
	if err != nil || string(got) != "hello" {
		t.Fatalf("get: %q, %v", got, err)
	}
	if !strings.HasPrefix(server.MonAddr, "127.0.0.1:") {
		t.Errorf("the monitor's address is %q", server.MonAddr)
	}
}

// list returns the names of the objects in the pool.
func list(t *testing.T, server *Server) string {
	t.Helper()
	said, err := server.Loligo("-p", "pool", "ls").Output()
	if err != nil {
		t.Fatalf("ls: %v", err)
	}
	return strings.TrimSpace(string(said))
}

func put(t *testing.T, server *Server, name string) {
	t.Helper()
	command := server.Loligo("-p", "pool", "put", name, "-")
	command.Stdin = strings.NewReader("hello")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("put: %v: %s", err, said)
	}
}

func TestEachTestHasAWorldOfItsOwn(t *testing.T) {
	needBinary(t)
	server := Start(t)
	state := filepath.Join(t.TempDir(), "state")
	put(t, server, "kept")
	for _, change := range []func() error{
		func() error { return server.Dump(state) },
		server.Reset,
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	if names := list(t, server); names != "" {
		t.Errorf("after the reset there are %q", names)
	}
	if err := server.Restore(state); err != nil {
		t.Fatal(err)
	}
	if names := list(t, server); names != "kept" {
		t.Errorf("after the return there are %q", names)
	}
	if names := list(t, Start(t, Arguments("--snapshot", state))); names != "kept" {
		t.Errorf("a new cluster begins with %q", names)
	}
	if err := server.Restore(state + ".none"); err == nil {
		t.Error("a file that is not there was taken")
	}
}

func TestServersAreApart(t *testing.T) {
	needBinary(t)
	var ids [2]string
	for number := range ids {
		server := Start(t)
		text, err := os.ReadFile(server.Conf)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(text, []byte("\n")) {
			if name, value, found := bytes.Cut(line, []byte("=")); found && string(bytes.TrimSpace(name)) == "fsid" {
				ids[number] = string(bytes.TrimSpace(value))
			}
		}
	}
	if ids[0] == ids[1] {
		t.Errorf("both clusters have the id %q", ids[0])
	}
}

func TestTheServerEndsWithTheTest(t *testing.T) {
	needBinary(t)
	var process *os.Process
	t.Run("inner", func(t *testing.T) { process = Start(t).command.Process })
	if err := process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the server lives after its test: %v", err)
	}
}

func TestADiskKeepsObjects(t *testing.T) {
	needBinary(t)
	folder := filepath.Join(t.TempDir(), "cluster")
	for number := 0; number < 2; number++ {
		server := Start(t, Dir(folder), Arguments("--store", "disk"))
		if number == 0 {
			put := server.Loligo("-p", "pool", "put", "kept", "-")
			put.Stdin = strings.NewReader("1")
			if said, err := put.CombinedOutput(); err != nil {
				t.Fatalf("put: %v: %s", err, said)
			}
		}
		got, err := server.Loligo("-p", "pool", "get", "kept", "-").Output()
		if err != nil || string(got) != "1" {
			t.Fatalf("get: %q, %v", got, err)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRunRemovesItsFolder(t *testing.T) {
	needBinary(t)
	server, err := Run()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(server.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestWhatDoesNotStart(t *testing.T) {
	// Programs that end, say nothing of use, or are not there.
	none := func() string { return t.TempDir() }
	for _, name := range []string{"false", "true"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("left out: %v", err)
		}
		_, err = start(none, []Option{Binary(path)})
		if err == nil || !strings.Contains(err.Error(), "before it was ready") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := start(none, []Option{Binary("/no/such/program")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	needBinary(t)
	_, err := start(none, []Option{Arguments("--no-such-option")})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("a wrong option: %v", err)
	}
}
