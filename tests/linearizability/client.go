package main

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// A cell answers within two seconds, unless it is stopped or cut off.
	answerMax  = 2500 * time.Millisecond
	connectMax = 300 * time.Millisecond
	// One in so many requests is sent through another cell than the one before.
	movesOnce = 50
	// One in so many is a `get` of several keys; a `flush_all`.
	severalOnce = 25
	flushOnce   = 2500
	severalKeys = 3
)

// Client sends one request after the other, through one cell at a time.
type Client struct {
	number  int
	dice    *Dice
	run     *Run
	through int
	// How many connections it has had.
	conns  int
	conn   net.Conn
	reader *bufio.Reader
}

// work sends requests until the run stops.
func (c *Client) work() {
	defer c.close()
	for c.run.takeTurn() {
		if c.conn == nil && !c.connect() {
			continue
		}
		var err error
		switch {
		case !c.run.options.divides && c.dice.Intn(flushOnce) == 0:
			_, err = c.ask(&Request{Kind: Flush, Line: "flush_all"})
		case c.dice.Intn(severalOnce) == 0:
			err = c.getSeveral()
		default:
			_, err = c.ask(c.dice.draw(c.run.key(c.dice)))
		}
		if bad := new(unexpected); errors.As(err, &bad) {
			c.run.fail(err)
		}
		if err != nil || c.dice.Intn(movesOnce) == 0 {
			c.close()
		}
	}
}

// connect tries a cell that is chosen at random.
func (c *Client) connect() bool {
	return c.connectTo(c.dice.Intn(len(c.run.ring.cells))) == nil
}

func (c *Client) connectTo(cell int) error {
	conn, err := net.DialTimeout("tcp", c.run.ring.cells[cell].clients, connectMax)
	if err != nil {
		return err
	}
	c.through, c.conn, c.reader = cell, conn, bufio.NewReader(conn)
	c.conns++
	return nil
}

func (c *Client) close() {
	if c.conn != nil {
		// What it says is of no use any more.
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ask sends a request and notes what comes of it. After an error the connection is of no use.
func (c *Client) ask(request *Request) (*Reply, error) {
	text := request.Line + "\r\n"
	if request.Kind == Store {
		text += request.Value + "\r\n"
	}
	entry := Entry{Client: c.number, Through: c.through, Conn: c.conns, Request: request,
		Call: c.run.now()}
	var err error
	if entry.Reply, err = c.exchange(text, request); err != nil {
		entry.Reply = &Reply{Result: Open}
	}
	entry.Return = c.run.now()
	if token := entry.Reply.Token; token != 0 {
		c.run.tokens.see(request.Key, token)
	}
	c.run.history.note(entry)
	return entry.Reply, err
}

func (c *Client) exchange(text string, request *Request) (*Reply, error) {
	if err := c.send(text); err != nil {
		return nil, err
	}
	return readReply(c.reader, request)
}

func (c *Client) send(text string) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerMax)); err != nil {
		return err
	}
	_, err := c.conn.Write([]byte(text))
	return err
}

// getSeveral gets several keys by one request. Each is read at a moment of its own.
func (c *Client) getSeveral() error {
	asked := map[string]*Reply{}
	var keys []string
	for range severalKeys {
		key := c.run.key(c.dice)
		if asked[key] == nil {
			asked[key] = &Reply{Result: Missing}
			keys = append(keys, key)
		}
	}
	line := "gets " + strings.Join(keys, " ")
	call := c.run.now()
	if err := c.send(line + "\r\n"); err != nil {
		return err
	}
	for {
		first, err := readLine(c.reader)
		if err != nil {
			return err
		}
		words := strings.Fields(first)
		if first == "END" {
			break
		}
		if _, ok := failure(first); ok {
			c.run.history.note(Entry{Request: &Request{Kind: Get, Line: line},
				Reply: &Reply{Result: Refused, Line: first}})
			return nil
		}
		if len(words) != 5 || words[0] != "VALUE" || asked[words[1]] == nil {
			return &unexpected{line, first}
		}
		reply := asked[words[1]]
		value, err := readValue(c.reader, words[3])
		if err != nil {
			return err
		}
		flags, bad := strconv.ParseUint(words[2], 10, 32)
		token, worse := strconv.ParseUint(words[4], 10, 64)
		if bad != nil || worse != nil {
			return &unexpected{line, first}
		}
		shown := uint32(flags)
		*reply = Reply{Result: Done, Value: &value, Flags: &shown, Token: token, Line: first}
	}
	for _, key := range keys {
		if token := asked[key].Token; token != 0 {
			c.run.tokens.see(key, token)
		}
		request := &Request{Kind: Get, Key: key, Line: line}
		c.run.history.note(Entry{Client: c.number, Through: c.through, Conn: c.conns,
			Request: request, Reply: asked[key], Call: call, Return: c.run.now()})
	}
	return nil
}
