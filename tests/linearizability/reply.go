package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Result is what a reply says of its request.
type Result uint8

// The results. Open: nobody knows whether it was executed, or will be. Refused: it was not.
const (
	Open Result = iota
	Refused
	Done
	Missing
	NotStored
	Exists
	NotNumber
)

func (r Result) String() string {
	return [...]string{
		"no answer", "refused", "done", "missing", "not stored", "exists", "no number",
	}[r]
}

// Reply is what was answered. What was not shown is nil, or 0 for a token.
type Reply struct {
	Result Result
	Value  *string
	Flags  *uint32
	Token  uint64
	Life   Lifetime
	// The flags of `mg`, which only that shows.
	IsMeta           bool
	Won, Stale, Sent bool
	// The line, for people.
	Line string
}

// valueBytesMax bounds what is received for one value.
const valueBytesMax = 1 << 20

// The errors by which a ring says that nothing was done; docs/consistency.md has the whole list.
var refusals = []string{
	"SERVER_ERROR the ring cannot be served: ",
	"SERVER_ERROR range ",
	"SERVER_ERROR cell ",
	"SERVER_ERROR too many requests wait for other cells",
	"SERVER_ERROR the log is full: ",
}

// doubt begins the error after which nobody knows.
const doubt = "SERVER_ERROR in doubt: "

// An unexpected reply is one that no request of ours should get.
type unexpected struct {
	request, reply string
}

func (u *unexpected) Error() string {
	return fmt.Sprintf("%q was answered with %.200q", u.request, u.reply)
}

// failure reads an error line; ok is false if it is none.
func failure(line string) (result Result, ok bool) {
	if strings.HasPrefix(line, doubt) {
		return Open, true
	}
	for _, refusal := range refusals {
		if strings.HasPrefix(line, refusal) {
			return Refused, true
		}
	}
	return Open, false
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(line, "\r\n"), nil
}

func readValue(r *bufio.Reader, size string) (string, error) {
	bytes, err := strconv.Atoi(size)
	if err != nil || bytes < 0 || bytes > valueBytesMax {
		return "", fmt.Errorf("a value of %q bytes, at most %d", size, valueBytesMax)
	}
	value := make([]byte, bytes+2)
	if _, err := io.ReadFull(r, value); err != nil {
		return "", err
	}
	if string(value[bytes:]) != "\r\n" {
		return "", fmt.Errorf("a value of %d bytes does not end there", bytes)
	}
	return string(value[:bytes]), nil
}

// readReply reads the reply to `request`.
func readReply(r *bufio.Reader, request *Request) (*Reply, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	reply := &Reply{Line: line}
	if result, ok := failure(line); ok {
		reply.Result = result
		return reply, nil
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, &unexpected{request.Line, line}
	}
	reply.Result = Done
	switch words[0] {
	case "STORED", "DELETED", "TOUCHED", "OK":
	case "END", "EN", "NF", "NOT_FOUND":
		reply.Result = Missing
	case "NS", "NOT_STORED":
		reply.Result = NotStored
	case "EX", "EXISTS":
		reply.Result = Exists
	case "CLIENT_ERROR":
		if request.Kind != Step || !strings.HasSuffix(line, "non-numeric value") {
			return nil, &unexpected{request.Line, line}
		}
		reply.Result = NotNumber
	case "VALUE":
		err = reply.readItem(r, request, words)
	case "HD":
		err = reply.readMeta(request, words[1:])
	case "VA":
		if len(words) < 2 {
			return nil, &unexpected{request.Line, line}
		}
		var value string
		if value, err = readValue(r, words[1]); err == nil {
			reply.Value = &value
			err = reply.readMeta(request, words[2:])
		}
	default:
		if _, bad := strconv.ParseUint(line, 10, 64); bad != nil || request.Kind != Step {
			return nil, &unexpected{request.Line, line}
		}
		reply.Value = &line
	}
	return reply, err
}

// readItem reads the rest of a `VALUE`, and the line that follows it.
func (y *Reply) readItem(r *bufio.Reader, request *Request, words []string) error {
	if len(words) < 4 || words[1] != request.Key {
		return &unexpected{request.Line, y.Line}
	}
	flags, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil {
		return &unexpected{request.Line, y.Line}
	}
	shown := uint32(flags)
	y.Flags = &shown
	if len(words) > 4 {
		if y.Token, err = strconv.ParseUint(words[4], 10, 64); err != nil {
			return &unexpected{request.Line, y.Line}
		}
	}
	value, err := readValue(r, words[3])
	if err != nil {
		return err
	}
	y.Value = &value
	end, err := readLine(r)
	if err != nil {
		return err
	}
	if result, ok := failure(end); ok {
		*y = Reply{Result: result, Line: end}
	} else if end != "END" {
		return &unexpected{request.Line, end}
	}
	return nil
}

// readMeta reads the flags of `HD` and `VA`.
func (y *Reply) readMeta(request *Request, flags []string) error {
	y.IsMeta = true
	for _, flag := range flags {
		var err error
		switch rest := flag[1:]; flag[0] {
		case 'c':
			y.Token, err = strconv.ParseUint(rest, 10, 64)
		case 'f':
			var shown uint64
			shown, err = strconv.ParseUint(rest, 10, 32)
			flags := uint32(shown)
			y.Flags = &flags
		case 't':
			y.Life = Forever
			if rest != "-1" {
				y.Life = Long
			}
		case 's':
			if y.Value != nil && rest != strconv.Itoa(len(*y.Value)) {
				err = fmt.Errorf("not its size")
			}
		case 'k', 'O':
			if rest != request.Key {
				err = fmt.Errorf("not what was sent")
			}
		case 'W':
			y.Won = true
		case 'X':
			y.Stale = true
		case 'Z':
			y.Sent = true
		default:
			err = fmt.Errorf("unknown flag")
		}
		if err != nil {
			return &unexpected{request.Line, y.Line}
		}
	}
	return nil
}
