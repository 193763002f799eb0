// Asks a warmroute router where a prompt should go, reports how it went, and hands a request over.
//
//	go run ./cmd/route -router 127.0.0.1:50051 -model llama -generate
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	warmroute "example.com/warmroute/v1"
)

func main() {
	router := flag.String("router", "127.0.0.1:50051", "address of the gRPC endpoint")
	model := flag.String("model", "", "model; empty for any")
	key := flag.String("key", "", "API key")
	generate := flag.Bool("generate", false, "hand the request over, and print the reply")
	flag.Parse()

	conn, err := grpc.NewClient(*router, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := warmroute.NewRouterClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if *key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", *key)
	}

	request := &warmroute.RouteRequest{
		Model:  *model,
		Prompt: &warmroute.RouteRequest_TokenIds{TokenIds: pack(prompt(2000))},
		Tenant: "example",
	}
	if err := route(ctx, client, request); err != nil {
		log.Fatal(explain(err))
	}
	if *generate {
		if err := hand(ctx, client, request); err != nil {
			log.Fatal(explain(err))
		}
	}
}

// route books a worker, and reports as a caller does that sends the request itself.
func route(ctx context.Context, client warmroute.RouterClient, request *warmroute.RouteRequest) error {
	booked, err := client.Route(ctx, request)
	if err != nil {
		return err
	}
	decision := booked.GetDecision()
	fmt.Printf("%s at %s holds %d of %d tokens: %s\n", decision.GetWorker().GetName(), decision.GetWorker().GetUrl(),
		decision.GetOverlapTokens(), decision.GetPromptTokens(), decision.GetReason())

	// ... send the request to the worker's URL; at the first token:
	reservation := booked.GetReservation()
	first := &warmroute.ReportRequest_FirstToken{FirstToken: &warmroute.FirstToken{}}
	if _, err := client.Report(ctx, &warmroute.ReportRequest{Reservation: reservation, Event: first}); err != nil {
		return err
	}
	// ... and at the end:
	tokens := uint32(120)
	ended := &warmroute.Ended{Outcome: warmroute.Outcome_OUTCOME_FINISHED, OutputTokens: &tokens}
	_, err = client.Report(ctx, &warmroute.ReportRequest{
		Reservation: reservation, Event: &warmroute.ReportRequest_Ended{Ended: ended},
	})
	return err
}

// hand lets the router forward the request, and prints the reply as it comes. Cancelling ctx has the engine abort.
func hand(ctx context.Context, client warmroute.RouterClient, request *warmroute.RouteRequest) error {
	limit := uint32(32)
	request.MaxOutputTokens = &limit
	stream, err := client.Generate(ctx, &warmroute.GenerateRequest{Request: request})
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch event := response.GetEvent().(type) {
		case *warmroute.GenerateResponse_Routed:
			fmt.Printf("[%s] ", event.Routed.GetDecision().GetWorker().GetName())
		case *warmroute.GenerateResponse_Chunk:
			fmt.Print(event.Chunk.GetText())
		case *warmroute.GenerateResponse_Finished:
			fmt.Printf("\n%d tokens\n", event.Finished.GetUsage().GetCompletionTokens())
		}
	}
}

// explain adds to an error its reason, and after how long trying again makes sense.
func explain(err error) string {
	text := err.Error()
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			text += " (" + detail.GetReason() + ")"
		case *errdetails.RetryInfo:
			text += fmt.Sprintf("; try again in %v", detail.GetRetryDelay().AsDuration())
		}
	}
	return text
}

// pack makes bytes of token ids: little-endian 32-bit integers.
func pack(ids []uint32) []byte {
	packed := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		packed = binary.LittleEndian.AppendUint32(packed, id)
	}
	return packed
}

func prompt(length int) []uint32 {
	ids := make([]uint32, length)
	for i := range ids {
		ids[i] = uint32(i % 500)
	}
	return ids
}
