package main

// Asks redisjobs for jobs, on a database/sql connection of yours: whatever transaction it is in, the job is part of it.

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// Options of a job: queue, run_at, delay, idempotency_key, and so on; what is left out has its default.
type Options map[string]any

// Querier is a *sql.Tx, or where the job stands alone a *sql.DB or *sql.Conn.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

const options = " queue run_at delay idempotency_key key_window priority max_attempts" +
	" expires_at tenant_id traceparent enqueued_by headers id" +
	" version lane share_key key_policy key_wait key_longest result_ttl "

const many = `INSERT INTO redisjobs.outbox (job, queue, input)
SELECT $1, $2, value FROM json_array_elements($3::json)`

// Enqueue asks for one job and answers its id. The input is a struct or map of arguments, or a string of JSON.
func Enqueue(ctx context.Context, db Querier, job string, input any, given Options) (id string, err error) {
	text, err := toJSON(input)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	sort.Strings(names)
	call, args := "", []any{job, text}
	for _, name := range names {
		if !strings.Contains(options, " "+name+" ") {
			return "", fmt.Errorf("%s is no option of a job: pass one of%s", name, options)
		}
		value := given[name]
		if name == "headers" {
			if value, err = toJSON(value); err != nil {
				return "", err
			}
		}
		args = append(args, value)
		call += fmt.Sprintf(", %s => $%d", name, len(args))
	}
	err = db.QueryRowContext(ctx, "SELECT redisjobs.enqueue($1, $2"+call+")", args...).Scan(&id)
	return id, err
}

// EnqueueMany asks for many jobs of one kind in one statement, in this order, and answers how many.
func EnqueueMany(ctx context.Context, db Querier, job, queue string, inputs any) (int64, error) {
	text, err := toJSON(inputs)
	if err != nil {
		return 0, err
	}
	result, err := db.ExecContext(ctx, many, job, queue, text)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// What the encoder writes for bytes that are no UTF-8: an escape. A real U+FFFD it writes as it is.
var replaced = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*\\ufffd`)

func toJSON(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	if replaced.Match(buffer.Bytes()) {
		return "", errors.New("a text is no UTF-8, and would arrive with other characters")
	}
	return buffer.String(), nil
}
