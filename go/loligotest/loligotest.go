// Package loligotest starts a Ceph-compatible cluster for a test.
//
//	func TestMine(t *testing.T) {
//		server := loligotest.Start(t, loligotest.Pools("p"))
//		conn, _ := rados.NewConn()
//		conn.ReadConfigFile(server.Conf)
//		...
//	}
//
// The cluster is the program `loligo serve`: LOLIGO_BIN names it, or it is found in PATH. It keeps its objects in
// memory, is ready within milliseconds, and ends with the test. Nothing is linked: the package needs no cgo.
package loligotest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a running cluster.
type Server struct {
	// Conf is the path of the configuration file for clients.
	Conf string
	// Dir is the folder of the cluster, which has its keyring and the socket of its administration.
	Dir string
	// MonAddr is the address of the monitor.
	MonAddr string
	// Binary is the path of the program.
	Binary string

	command *exec.Cmd
	ended   chan struct{}
	waitErr error
	stop    sync.Once
	errors  *tail
	removes bool
}

// Option changes what is started.
type Option func(*options)

type options struct {
	pools     []string
	arguments []string
	binary    string
	dir       string
	removes   bool
	patience  time.Duration
}

// Pools are created when the cluster starts; without this option there is one, called "pool".
func Pools(names ...string) Option {
	return func(o *options) { o.pools = names }
}

// Arguments are added to those of `loligo serve`, such as "--auth", "none".
func Arguments(arguments ...string) Option {
	return func(o *options) { o.arguments = append(o.arguments, arguments...) }
}

// Binary is the path of the program, instead of LOLIGO_BIN or the one in PATH.
func Binary(path string) Option {
	return func(o *options) { o.binary = path }
}

// Dir is the folder of the cluster, instead of one of the test's own. With Arguments("--store", "disk") the next
// start in the same folder finds the objects again.
func Dir(path string) Option {
	return func(o *options) { o.dir = path }
}

// ErrNoBinary tells that there is no program to start.
var ErrNoBinary = errors.New("no loligo: set LOLIGO_BIN to the program, or put it into PATH")

// Find returns the path of the program.
func Find() (string, error) {
	if path := os.Getenv("LOLIGO_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("LOLIGO_BIN: %w", err)
		}
		return path, nil
	}
	path, err := exec.LookPath("loligo")
	if err != nil {
		return "", ErrNoBinary
	}
	return path, nil
}

// Start starts a cluster, which ends with the test. The test fails if it does not start.
func Start(t testing.TB, choices ...Option) *Server {
	t.Helper()
	server, err := start(t.TempDir, choices)
	if err != nil {
		t.Fatalf("loligotest: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("loligotest: %v", err)
		}
	})
	return server
}

// Run starts a cluster for TestMain or a program; the caller stops it. Without Dir its folder is a temporary one,
// which is removed at the end.
func Run(choices ...Option) (*Server, error) {
	made := ""
	makeDir := func() string {
		made, _ = os.MkdirTemp("", "loligotest-")
		return made
	}
	server, err := start(makeDir, append(choices, func(o *options) { o.removes = true }))
	if err != nil && made != "" {
		os.RemoveAll(made)
	}
	return server, err
}

func start(makeDir func() string, choices []Option) (*Server, error) {
	chosen := options{pools: []string{"pool"}, patience: 2 * time.Minute}
	for _, choose := range choices {
		choose(&chosen)
	}
	if chosen.binary == "" {
		found, err := Find()
		if err != nil {
			return nil, err
		}
		chosen.binary = found
	}
	if chosen.dir == "" {
		chosen.dir = makeDir()
	} else {
		chosen.removes = false
	}
	return launch(&chosen)
}

func launch(chosen *options) (*Server, error) {
	// Port 0: any free one. Several clusters may run at a time.
	arguments := []string{"serve", "--data", chosen.dir, "--mon-addr", "127.0.0.1:0"}
	for _, pool := range chosen.pools {
		arguments = append(arguments, "--pool", pool)
	}
	isStore := func(argument string) bool { return argument == "--store" || strings.HasPrefix(argument, "--store=") }
	if !slices.ContainsFunc(chosen.arguments, isStore) {
		arguments = append(arguments, "--store", "memory")
	}
	command := exec.Command(chosen.binary, append(arguments, chosen.arguments...)...)
	command.SysProcAttr = dieWithParent()
	server := &Server{Dir: chosen.dir, Binary: chosen.binary, command: command, removes: chosen.removes}
	server.ended, server.errors = make(chan struct{}), &tail{}
	command.Stderr = server.errors
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, ready := make(chan error, 1), make(chan string, 1)
	go server.run(output, started, ready)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", chosen.binary, err)
	}
	select {
	case line, isReady := <-ready:
		if isReady {
			return server, server.read(line)
		}
		<-server.ended
		return nil, fmt.Errorf("%s ended before it was ready: %v: %s", chosen.binary, server.waitErr, server.errors)
	case <-time.After(chosen.patience):
		_ = server.Stop()
		return nil, fmt.Errorf("%s was not ready within %s: %s", chosen.binary, chosen.patience, server.errors)
	}
}

// run starts the program and reads its output until its end. The first line that begins with "ready" is told.
func (s *Server) run(output io.Reader, started chan<- error, ready chan<- string) {
	// The system ends the program with the thread that started it: this one lives as long as the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.command.Start()
	started <- err
	if err != nil {
		return
	}
	lines := bufio.NewScanner(output)
	for told := false; lines.Scan(); {
		if !told && strings.HasPrefix(lines.Text(), "ready ") {
			told = true
			ready <- lines.Text()
		}
	}
	s.waitErr = s.command.Wait()
	if s.removes {
		os.RemoveAll(s.Dir)
	}
	close(ready)
	close(s.ended)
}

// read takes a line such as "ready conf=DIR/ceph.conf mon=127.0.0.1:3300 startup_ms=4" apart.
func (s *Server) read(line string) error {
	s.Conf = filepath.Join(s.Dir, "ceph.conf")
	// The folder may have blanks in its name, which the configuration's path then has as well.
	if _, rest, found := strings.Cut(line, " mon="); found {
		s.MonAddr, _, _ = strings.Cut(rest, " ")
	}
	if _, err := os.Stat(s.Conf); err != nil || s.MonAddr == "" {
		_ = s.Stop()
		return fmt.Errorf("%s said what is not understood: %s", s.Binary, line)
	}
	return nil
}

// Env returns the environment of this process with the variable by which programs find the cluster.
func (s *Server) Env() []string {
	return append(os.Environ(), "CEPH_CONF="+s.Conf)
}

// Command returns a command whose program finds the cluster.
func (s *Server) Command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.Env = s.Env()
	return command
}

// Loligo returns a command of the program itself, such as Loligo("-p", "pool", "ls").
func (s *Server) Loligo(arguments ...string) *exec.Cmd {
	return s.Command(s.Binary, arguments...)
}

// Reset returns within milliseconds to the state that the cluster had when it was ready, so that each test has a
// world of its own. Clients connect again by themselves; watches are gone. A cluster with a store on disk refuses.
func (s *Server) Reset() error {
	return s.state("reset")
}

// Dump writes the whole state to a file, which has the cluster's keys: only its owner may read it.
// Arguments("--snapshot", path) has a new cluster begin with it.
func (s *Server) Dump(path string) error {
	return s.state("dump", path)
}

// Restore returns to the state of a file that Dump has written, of this cluster or of another one.
func (s *Server) Restore(path string) error {
	return s.state("restore", path)
}

func (s *Server) state(arguments ...string) error {
	command := s.Loligo(append([]string{"server"}, arguments...)...)
	command.Args = append(command.Args, "--asok", filepath.Join(s.Dir, "loligo.asok"))
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("server %s: %w: %s", arguments[0], err, bytes.TrimSpace(said))
	}
	return nil
}

// Stop ends the cluster and waits for its end. It is called at the end of a test, and may be called before.
func (s *Server) Stop() error {
	s.stop.Do(func() { _ = s.command.Process.Signal(syscall.SIGTERM) })
	<-s.ended
	if s.waitErr != nil {
		return fmt.Errorf("%s ended with %w: %s", s.Binary, s.waitErr, s.errors)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

const tailMax = 8 << 10

func (t *tail) Write(bytes []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, bytes...)
	if over := len(t.text) - tailMax; over > 0 {
		t.text = t.text[over:]
	}
	return len(bytes), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return strings.TrimSpace(string(t.text))
}
