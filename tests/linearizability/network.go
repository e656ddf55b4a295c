package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Network is where cells listen, and how they are kept apart.
type Network interface {
	// addresses of a cell: for clients, for agreement and heartbeats, for requests of cells.
	addresses(place int) (clients, control, links string)
	// command is what starts `line` at the place of a cell.
	command(place int, line []string) []string
	// cut drops what `from` sends to `to`: all of it, or what goes to the port for requests.
	cut(from, to int, linksOnly bool) error
	// join ends all cuts.
	join() error
	canCut() bool
}

// Loopback is this machine's. It cannot be cut.
type Loopback struct{ base int }

// Ports of one cell.
const portsOfCell = 3

// Loopback ports are searched here, below those that systems give to clients.
const portFirst, portLast = 20_000, 32_700

// newLoopback finds free ports for so many cells, from `base` on if that is given.
func newLoopback(base, cells int) (*Loopback, error) {
	isFree := func(port int) bool {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			listener.Close()
		}
		return err == nil
	}
	wanted := cells * portsOfCell
	if base == 0 {
		base = portFirst + os.Getpid()%(portLast-portFirst-wanted)
	}
	for first := base; first+wanted <= portLast; first += wanted {
		port := first
		for port < first+wanted && isFree(port) {
			port++
		}
		if port == first+wanted {
			return &Loopback{first}, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d on, below %d: give another --port",
		wanted, base, portLast)
}

func (l *Loopback) addresses(place int) (clients, control, links string) {
	at := func(which int) string {
		return fmt.Sprintf("127.0.0.1:%d", l.base+(place-1)*portsOfCell+which)
	}
	return at(0), at(1), at(2)
}

func (l *Loopback) command(_ int, line []string) []string { return line }

func (l *Loopback) cut(int, int, bool) error { return errors.New("loopback cannot be cut") }

func (l *Loopback) join() error { return nil }

func (l *Loopback) canCut() bool { return false }

// Namespaces gives each cell a network namespace, with a link to a bridge in the one of this
// process, where the clients are. All of them end with this process.
//
// A cut is a rule of the namespace that receives: packets of the sender are dropped on arrival, so
// the sender sees silence. Neighbours are fixed, so that ARP does not need the way back.
type Namespaces struct {
	cuts map[int]int
}

const (
	insideFlag  = "--inside"
	linksPort   = 13211
	rulesPlace  = "10"
	cellsMax    = 64
	setupOutput = 400
	// How the process inside ends if it may not make the network.
	refusedStatus = 3
)

func addressOf(place int) string  { return fmt.Sprintf("10.77.0.%d", place) }
func hardwareOf(place int) string { return fmt.Sprintf("02:00:00:00:77:%02x", place) }
func nameOf(place int) string     { return "cell" + strconv.Itoa(place) }

// hubPlace is the number that the clients have in the network.
const hubPlace = 254

// inside runs this program again, in namespaces of its own, and returns how that ended.
func inside() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	command := exec.Command(self, append([]string{insideFlag}, os.Args[1:]...)...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	flags := syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		flags |= syscall.CLONE_NEWUSER
		root := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		}
		attributes.UidMappings, attributes.GidMappings = root(os.Geteuid()), root(os.Getegid())
	}
	attributes.Cloneflags = uintptr(flags)
	command.SysProcAttr = attributes
	done := make(chan error)
	spawn <- func() { done <- command.Start() }
	if err := <-done; err != nil {
		return 0, err
	}
	err = command.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// newNamespaces makes the network for so many cells. This process runs inside already.
func newNamespaces(cells int) (*Namespaces, error) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("mounts of its own: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return nil, fmt.Errorf("a folder for namespaces: %w", err)
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return nil, err
	}
	lines := []string{
		"ip link set lo up",
		"ip link add hub address " + hardwareOf(hubPlace) + " type bridge",
		"ip link set hub up",
		"ip addr add " + addressOf(hubPlace) + "/24 dev hub",
	}
	for place := 1; place <= cells; place++ {
		name := nameOf(place)
		in := "ip -n " + name + " "
		lines = append(lines,
			"ip netns add "+name,
			"ip link add "+name+" type veth peer name out address "+hardwareOf(place)+
				" netns "+name,
			"ip link set "+name+" master hub up",
			in+"addr add "+addressOf(place)+"/24 dev out",
			in+"link set out up",
			in+"link set lo up",
			// Rules are asked before the table of local addresses, for every packet.
			"ip netns exec "+name+" sysctl -q -w net.ipv4.ip_early_demux=0",
			in+"rule add pref 100 lookup local",
			in+"rule del pref 0",
			"ip neigh replace "+addressOf(place)+" lladdr "+hardwareOf(place)+" dev hub",
			in+"neigh replace "+addressOf(hubPlace)+" lladdr "+hardwareOf(hubPlace)+" dev out",
		)
		for other := 1; other <= cells; other++ {
			if other != place {
				lines = append(lines, in+"neigh replace "+addressOf(other)+" lladdr "+
					hardwareOf(other)+" dev out")
			}
		}
	}
	for _, line := range lines {
		if err := shell(line); err != nil {
			return nil, err
		}
	}
	return &Namespaces{cuts: map[int]int{}}, nil
}

func shell(line string) error {
	words := strings.Fields(line)
	output, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.*s", line, err, setupOutput, output)
	}
	return nil
}

func (n *Namespaces) addresses(place int) (clients, control, links string) {
	address := addressOf(place)
	return address + ":11211", address + ":12211", fmt.Sprintf("%s:%d", address, linksPort)
}

func (n *Namespaces) command(place int, line []string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + nameOf(place)}, line...)
}

func (n *Namespaces) cut(from, to int, linksOnly bool) error {
	what := ""
	if linksOnly {
		what = fmt.Sprintf(" ipproto tcp dport %d", linksPort)
	}
	line := "ip -n " + nameOf(to) + " rule add pref " + rulesPlace + " from " + addressOf(from) +
		what + " blackhole"
	if err := shell(line); err != nil {
		return err
	}
	n.cuts[to]++
	return nil
}

func (n *Namespaces) join() error {
	for to, cuts := range n.cuts {
		for range cuts {
			if err := shell("ip -n " + nameOf(to) + " rule del pref " + rulesPlace); err != nil {
				return err
			}
		}
		delete(n.cuts, to)
	}
	return nil
}

func (n *Namespaces) canCut() bool { return true }
