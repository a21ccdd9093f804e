package main

// Does what the lines on stdin say, and answers each with a line: how the tests drive every language alike.

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"math"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
)

type command struct {
	Do, Job, Name, Text string
	Input               any
	Options             Options
}

type session struct {
	conn *sql.Conn
	tx   *sql.Tx
}

func (s *session) querier() Querier {
	if s.tx != nil {
		return s.tx
	}
	return s.conn
}

func (s *session) end(end func() error) (any, error) {
	s.tx = nil
	return nil, end()
}

func (s *session) execute(ctx context.Context, text string) (any, error) {
	_, err := s.querier().ExecContext(ctx, text)
	return nil, err
}

func (s *session) enqueue(ctx context.Context, c command) (any, error) {
	if c.Input == nil {
		c.Input = struct{}{}
	}
	if text, ok := c.Options["run_at"].(string); ok {
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, err
		}
		c.Options["run_at"] = moment
	}
	for name, value := range c.Options {
		if number, ok := value.(json.Number); ok {
			c.Options[name] = number.String()
		}
	}
	return Enqueue(ctx, s.querier(), c.Job, c.Input, c.Options)
}

func (s *session) carryOut(ctx context.Context, c command) (answer any, err error) {
	switch c.Do {
	case "begin":
		s.tx, err = s.conn.BeginTx(ctx, nil)
		return nil, err
	case "commit":
		return s.end(s.tx.Commit)
	case "rollback":
		return s.end(s.tx.Rollback)
	case "savepoint":
		return s.execute(ctx, "SAVEPOINT "+c.Name)
	case "rollback_to":
		return s.execute(ctx, "ROLLBACK TO SAVEPOINT "+c.Name)
	case "sql":
		return s.execute(ctx, c.Text)
	case "enqueue":
		return s.enqueue(ctx, c)
	case "enqueue_many":
		return EnqueueMany(ctx, s.querier(), c.Job, c.Options["queue"].(string), c.Input)
	case "enqueue_no_text":
		return Enqueue(ctx, s.querier(), c.Job, map[string]string{"text": "\xed\xa0\x80"}, nil)
	case "enqueue_nan":
		return Enqueue(ctx, s.querier(), c.Job, map[string]float64{"number": math.NaN()}, nil)
	}
	return nil, errors.New("nobody knows how to " + c.Do)
}

func said(answer any, err error) map[string]any {
	var refused *pq.Error
	switch {
	case errors.As(err, &refused):
		return map[string]any{"error": refused.Message, "sqlstate": refused.Code, "constraint": refused.Constraint}
	case err != nil:
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"answer": answer}
}

func main() {
	ctx := context.Background()
	db, err := sql.Open("postgres", "")
	if err != nil {
		log.Fatal(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		log.Fatal(err)
	}
	current := session{conn: conn}
	lines, writer := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var asked command
			decoder := json.NewDecoder(strings.NewReader(line))
			decoder.UseNumber() // every digit stays
			if err := decoder.Decode(&asked); err != nil {
				log.Fatal(err)
			}
			if err := writer.Encode(said(current.carryOut(ctx, asked))); err != nil {
				log.Fatal(err)
			}
		}
		if err != nil {
			return
		}
	}
}
