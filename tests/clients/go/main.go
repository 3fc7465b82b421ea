// Does the tasks of Client.java with arrow-go's stock Flight client, and says so in the same words.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

type client struct{ flight.Client }

// HOST:PORT, then pairs of a task and its word, which is a feed command unless it is said below.
func main() {
	log.SetFlags(0)
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := flight.NewClientWithMiddleware(os.Args[1], nil, nil, plain)
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	c := client{connection}
	tasks := map[string]func(string) error{
		"list": c.list, "rows": c.rows, "count": c.count, "leave": c.leave, "ask": c.ask, "redeem": c.redeem,
	}
	for words := os.Args[2:]; len(words) > 0; words = words[2:] {
		if err := tasks[words[0]](words[1]); err != nil {
			fmt.Println("refused", status.Code(err), status.Convert(err).Message())
		}
	}
}

// Its word is for nothing.
func (c client) list(string) error {
	flights, err := c.ListFlights(context.Background(), &flight.Criteria{})
	if err != nil {
		return err
	}
	for {
		info, err := flights.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println("flight", info.FlightDescriptor.Path[0], info.TotalRecords)
	}
}

// Every row of every rank, and the note on each batch.
func (c client) rows(command string) error {
	info, err := c.info(command)
	if err != nil {
		return err
	}
	for rank, endpoint := range info.Endpoint {
		stream, err := c.stream(context.Background(), endpoint.Ticket)
		if err != nil {
			return err
		}
		defer stream.Release()
		for stream.Next() {
			fmt.Printf("note %d %s\n", rank, stream.LatestAppMetadata())
			batch := stream.RecordBatch()
			for row := range int(batch.NumRows()) {
				values := make([]string, batch.NumCols())
				for i, column := range batch.Columns() {
					values[i] = text(column, row)
				}
				fmt.Printf("row %d %s\n", rank, strings.Join(values, "|"))
			}
		}
		if stream.Err() != nil {
			return stream.Err()
		}
	}
	return nil
}

// The rows of the first rank.
func (c client) count(command string) error {
	stream, err := c.first(context.Background(), command)
	if err != nil {
		return err
	}
	defer stream.Release()
	rows := int64(0)
	for stream.Next() {
		rows += stream.RecordBatch().NumRows()
	}
	fmt.Println("count", rows)
	return stream.Err()
}

// Takes one batch and goes, as a job does that is stopped.
func (c client) leave(command string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := c.first(ctx, command)
	if err != nil {
		return err
	}
	defer stream.Release()
	fmt.Println("left", stream.Next())
	return nil
}

func (c client) ask(command string) error {
	_, err := c.info(command)
	return err
}

// Its word is the ticket.
func (c client) redeem(ticket string) error {
	_, err := c.stream(context.Background(), &flight.Ticket{Ticket: []byte(ticket)})
	return err
}

func (c client) info(command string) (*flight.FlightInfo, error) {
	descriptor := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(command)}
	return c.GetFlightInfo(context.Background(), descriptor)
}

func (c client) first(ctx context.Context, command string) (*flight.Reader, error) {
	info, err := c.info(command)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, info.Endpoint[0].Ticket)
}

func (c client) stream(ctx context.Context, ticket *flight.Ticket) (*flight.Reader, error) {
	stream, err := c.DoGet(ctx, ticket)
	if err != nil {
		return nil, err
	}
	return flight.NewRecordReader(stream)
}

// One value, written so that every client writes it alike: floats by their bits.
func text(column arrow.Array, row int) string {
	if column.IsNull(row) {
		return "null"
	}
	switch values := column.(type) {
	case *array.Float32:
		return fmt.Sprintf("%08x", math.Float32bits(values.Value(row)))
	case *array.Float64:
		return fmt.Sprintf("%016x", math.Float64bits(values.Value(row)))
	case *array.Timestamp:
		return fmt.Sprint(int64(values.Value(row)))
	case array.ListLike:
		from, to := values.ValueOffsets(row)
		items := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			items = append(items, text(values.ListValues(), int(i)))
		}
		return "[" + strings.Join(items, " ") + "]"
	default:
		return column.ValueStr(row)
	}
}
