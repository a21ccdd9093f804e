package main

// go run demo.go redisjobs.go ada@example.com: places an order; its mail goes out if, and only if, the order is committed.

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "github.com/lib/pq"
)

type confirmation struct {
	OrderID int64  `json:"order_id"`
	Email   string `json:"email"`
}

func placeOrder(ctx context.Context, db *sql.DB, email string) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after a commit
	asked := confirmation{Email: email}
	err = tx.QueryRowContext(ctx, "INSERT INTO orders (email) VALUES ($1) RETURNING id", email).Scan(&asked.OrderID)
	if err != nil {
		return 0, err
	}
	if _, err = Enqueue(ctx, tx, "send_confirmation", asked, Options{"queue": "mail"}); err != nil {
		return 0, err
	}
	return asked.OrderID, tx.Commit()
}

func main() {
	email := "ada@example.com"
	if len(os.Args) > 1 {
		email = os.Args[1]
	}
	db, err := sql.Open("postgres", "") // PGHOST, PGDATABASE, PGUSER, … say where
	if err != nil {
		log.Fatal(err)
	}
	id, err := placeOrder(context.Background(), db, email)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("order %d is committed, and with it its mail\n", id)
}
