package main

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	reportMax      = 500 * time.Millisecond
	reportLinesMax = 4096
	// The slice of a key is that many bits of its CRC-32.
	sliceBits = 14
)

// Report is what a cell answers to `stats ring`.
type Report map[string]string

func askReport(address string) (Report, error) {
	conn, err := net.DialTimeout("tcp", address, reportMax)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(reportMax)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte("stats ring\r\n")); err != nil {
		return nil, err
	}
	report, reader := Report{}, bufio.NewReader(conn)
	for range reportLinesMax {
		line, err := readLine(reader)
		if err != nil {
			return nil, err
		}
		words := strings.SplitN(line, " ", 3)
		if line == "END" {
			return report, nil
		}
		if len(words) != 3 || words[0] != "STAT" {
			return nil, &unexpected{"stats ring", line}
		}
		report[words[1]] = words[2]
	}
	return nil, fmt.Errorf("more than %d lines of stats ring", reportLinesMax)
}

// number is a value that is one; 0 if it is missing.
func (r Report) number(name string) int {
	number, err := strconv.Atoi(r[name])
	if err != nil {
		return 0
	}
	return number
}

// ranges are the numbers of the ranges.
func (r Report) ranges() []string {
	var ranges []string
	for name := range r {
		if number, ok := strings.CutSuffix(name, ":slices"); ok {
			ranges = append(ranges, strings.TrimPrefix(number, "range:"))
		}
	}
	return ranges
}

// rangeOf is the number of the range of a key.
func (r Report) rangeOf(key string) string {
	slice := int(crc32.ChecksumIEEE([]byte(key)) >> (32 - sliceBits))
	for _, number := range r.ranges() {
		first, last, _ := strings.Cut(r["range:"+number+":slices"], "-")
		from, err := strconv.Atoi(first)
		to, worse := strconv.Atoi(last)
		if err == nil && worse == nil && from <= slice && slice <= to {
			return number
		}
	}
	return ""
}

// primary is the number of the cell that leads a range.
func (r Report) primary(number string) string {
	return r["range:"+number+":primary"]
}
