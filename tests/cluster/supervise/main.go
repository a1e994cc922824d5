// supervise starts the processes that a plan file names, and ends all of them
// when its standard input closes: the operating system closes it however the
// starting process ends, so that not even a SIGKILL leaves a process behind.
//
// Words on standard output: "ready", "failed NAME: why", "done COMMAND".
// Commands on standard input: "keep" (the folder), and with a process' name
// "stop" (SIGKILL), "start", "pause" (SIGSTOP), "resume".
//
// It uses Go's standard library alone, so that it builds in seconds and
// weighs little beside what it watches.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// plan is what the starting process wants; windlass-testbed writes it.
type plan struct {
	// Dir holds the logs, and the lock that tells that the plan is running.
	Dir string `json:"dir"`
	// RemoveDir asks to remove Dir at the end, unless "keep" was said.
	RemoveDir bool `json:"removeDir"`
	// Detached means that standard input says nothing: only a signal ends it.
	Detached bool `json:"detached"`
	// SetUp is a command that must succeed before the processes start.
	SetUp     []string  `json:"setUp"`
	Processes []process `json:"processes"`
	// Ready is what to wait for before saying so; none means at once.
	Ready *ready `json:"ready"`
}

type process struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	// AfterServer delays the process until the API server answers.
	AfterServer bool `json:"afterServer"`
}

type supervisor struct {
	plan    plan
	running map[string]*exec.Cmd
	// stopping names processes whose end was asked for, so is no failure.
	stopping map[string]bool
	exits    chan exit
	keep     bool
}

type exit struct {
	name string
	cmd  *exec.Cmd
	err  error
}

// The parent-death signal of a child fires when the *thread* that started it
// ends; the main thread lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	// A reader that went away must not end the supervisor by SIGPIPE.
	signal.Ignore(syscall.SIGPIPE)
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: supervise PLAN.json")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		say("failed supervise: %v", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Println(strings.ReplaceAll(line, "\n", " "))
	fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339Nano), line)
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s := &supervisor{running: map[string]*exec.Cmd{}, stopping: map[string]bool{}, exits: make(chan exit)}
	if err := json.Unmarshal(text, &s.plan); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	lock, err := lockDir(s.plan.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if command := s.plan.SetUp; len(command) > 0 {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, output)
		}
	}
	return s.serve()
}

// lockDir takes the lock that says "this folder's processes are running". It
// ends with this process, so no stale file can lie about it.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "supervise.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("something runs in %s already: %w", dir, err)
	}
	if err := lock.Truncate(0); err != nil {
		return nil, err
	}
	// As the starting process sees it: Getpid gives the one within a namespace.
	id, err := os.Readlink("/proc/self")
	if err != nil {
		id = strconv.Itoa(os.Getpid())
	}
	_, err = fmt.Fprintln(lock, id)
	return lock, err
}

func (s *supervisor) serve() error {
	signals := make(chan os.Signal, 1)
	if s.plan.Detached {
		signal.Ignore(syscall.SIGHUP)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	} else {
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	defer s.end()
	for _, p := range s.plan.Processes {
		if !p.AfterServer {
			if err := s.start(p); err != nil {
				return err
			}
		}
	}
	commands := s.readCommands()
	up, ready := s.awaitReady()
	for {
		select {
		case <-up:
			up = nil
			for _, p := range s.plan.Processes {
				if p.AfterServer {
					if err := s.start(p); err != nil {
						return err
					}
				}
			}
		case err := <-ready:
			ready = nil
			if err != nil {
				say("failed ready: %v", err)
			} else {
				say("ready")
			}
		case e := <-s.exits:
			s.ended(e)
		case command, open := <-commands:
			if !open {
				return nil
			}
			s.obey(command)
		case <-signals:
			return nil
		}
	}
}

// readCommands gives the lines of standard input; the channel closes with it.
func (s *supervisor) readCommands() <-chan string {
	if s.plan.Detached {
		return nil
	}
	commands := make(chan string)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			commands <- lines.Text()
		}
		close(commands)
	}()
	return commands
}

func (s *supervisor) obey(command string) {
	verb, name, _ := strings.Cut(command, " ")
	if verb == "keep" {
		s.keep = true
		return
	}
	if err := s.act(verb, name); err != nil {
		say("failed %s: %v", name, err)
		return
	}
	say("done %s", command)
}

func (s *supervisor) act(verb, name string) error {
	if verb == "start" {
		for _, p := range s.plan.Processes {
			if p.Name == name {
				return s.start(p)
			}
		}
		return errors.New("no such process in the plan")
	}
	cmd := s.running[name]
	if cmd == nil {
		return errors.New("it does not run")
	}
	switch verb {
	case "stop":
		s.stopping[name] = true
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		for s.running[name] == cmd {
			s.ended(<-s.exits)
		}
		return nil
	case "pause":
		return cmd.Process.Signal(syscall.SIGSTOP)
	case "resume":
		return cmd.Process.Signal(syscall.SIGCONT)
	}
	return fmt.Errorf("no such command as %q", verb)
}

func (s *supervisor) start(p process) error {
	if s.running[p.Name] != nil {
		return fmt.Errorf("%s runs already", p.Name)
	}
	path := filepath.Join(s.plan.Dir, p.Name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Dir = s.plan.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	s.running[p.Name] = cmd
	go func() { s.exits <- exit{p.Name, cmd, cmd.Wait()} }()
	return nil
}

func (s *supervisor) ended(e exit) {
	if s.running[e.name] == e.cmd {
		delete(s.running, e.name)
	}
	if s.stopping[e.name] {
		delete(s.stopping, e.name)
		return
	}
	why := "it ended by itself"
	if e.err != nil {
		why = e.err.Error()
	}
	say("failed %s: %s", e.name, why)
}

// end kills rather than asks: everything here is thrown away, and a graceful
// end of an API server takes a minute.
func (s *supervisor) end() {
	for _, cmd := range s.running {
		_ = cmd.Process.Kill()
	}
	for len(s.running) > 0 {
		e := <-s.exits
		delete(s.running, e.name)
	}
	if s.plan.RemoveDir && !s.keep {
		if err := os.RemoveAll(s.plan.Dir); err != nil {
			fmt.Fprintln(os.Stderr, "cannot remove the folder:", err)
		}
	}
}
