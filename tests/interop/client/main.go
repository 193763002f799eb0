// Calls a router as a Go program does, and fails where an answer is not what the proto says.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "example.com/warmroute/v1"
)

type checker struct {
	router pb.RouterClient
	fleet  pb.FleetClient
	conn   *grpc.ClientConn
	ctx    context.Context
}

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", os.Args[2])
	c := checker{pb.NewRouterClient(conn), pb.NewFleetClient(conn), conn, ctx}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"route and report", c.routeAndReport},
		{"decide and explain", c.decideAndExplain},
		{"errors", c.errors},
		{"key", c.key},
		{"stream", c.stream},
		{"stream cancelled", c.streamCancelled},
		{"generate", c.generate},
		{"generate cancelled", c.generateCancelled},
		{"generate out of time", c.generateOutOfTime},
		{"fleet", c.changeFleet},
		{"health", c.health},
	} {
		step.run()
		fmt.Println("ok:", step.name)
	}
}

func (c checker) routeAndReport() {
	booked, err := c.router.Route(c.ctx, request(1000))
	must(err)
	is("prompt tokens", booked.GetDecision().GetPromptTokens(), uint32(1000))
	is("lease time", booked.GetLeaseTimeMs(), uint32(60000))
	is("alternatives", len(booked.GetDecision().GetAlternatives()), 1)
	warm, err := c.router.Route(c.ctx, request(1000))
	must(err)
	is("overlap", warm.GetDecision().GetOverlapTokens(), uint32(992))
	is("reason", warm.GetDecision().GetReason(), pb.Reason_REASON_WARM)
	for _, reservation := range []uint64{booked.GetReservation(), warm.GetReservation()} {
		first := &pb.ReportRequest_FirstToken{FirstToken: &pb.FirstToken{}}
		progress := &pb.ReportRequest_Progress{Progress: &pb.Progress{OutputTokens: 5}}
		for _, report := range []*pb.ReportRequest{
			{Reservation: reservation},
			{Reservation: reservation, Event: first},
			{Reservation: reservation, Event: progress},
		} {
			reported, err := c.router.Report(c.ctx, report)
			must(err)
			is("lease time", reported.GetLeaseTimeMs(), uint32(60000))
		}
		is("requests", c.requests() > 0, true)
		reported, err := c.router.Report(c.ctx, ended(reservation))
		must(err)
		is("lease time", reported.GetLeaseTimeMs(), uint32(0))
		_, err = c.router.Report(c.ctx, ended(reservation))
		fails(err, codes.NotFound, "RESERVATION_NOT_FOUND", false, "reservation")
	}
	is("requests", c.requests(), uint32(0))
}

func (c checker) decideAndExplain() {
	decided, err := c.router.Decide(c.ctx, &pb.DecideRequest{Request: request(1000)})
	must(err)
	is("overlap", decided.GetDecision().GetOverlapTokens(), uint32(992))
	explained, err := c.router.Explain(c.ctx, &pb.ExplainRequest{Request: request(1000)})
	must(err)
	is("candidates", len(explained.GetCandidates()), 2)
	is("requests", c.requests(), uint32(0))
}

func (c checker) errors() {
	_, err := c.router.Route(c.ctx, &pb.RouteRequest{})
	fails(err, codes.InvalidArgument, "INVALID_REQUEST", false, "prompt")
	odd := &pb.RouteRequest{Prompt: &pb.RouteRequest_TokenIds{TokenIds: []byte{1, 2, 3}}}
	_, err = c.router.Route(c.ctx, odd)
	fails(err, codes.InvalidArgument, "INVALID_REQUEST", false, "token_ids")
	other := request(100)
	other.Model = "other"
	_, err = c.router.Route(c.ctx, other)
	fails(err, codes.NotFound, "MODEL_NOT_FOUND", false, "")
	avoiding := request(100)
	workers, err := c.fleet.ListWorkers(c.ctx, &pb.ListWorkersRequest{})
	must(err)
	for _, worker := range workers.GetWorkers() {
		avoiding.AvoidWorkers = append(avoiding.AvoidWorkers, worker.GetName())
	}
	_, err = c.router.Route(c.ctx, avoiding)
	fails(err, codes.Unavailable, "NO_ELIGIBLE_WORKER", true, "")
}

func (c checker) key() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := c.router.Route(ctx, request(100))
	fails(err, codes.Unauthenticated, "UNAUTHORIZED", false, "")
}

func (c checker) stream() {
	stream, err := c.router.RouteStream(c.ctx)
	must(err)
	const count = 100
	for id := uint64(1); id <= count; id++ {
		must(stream.Send(&pb.RouteStreamRequest{
			Id: id, Message: &pb.RouteStreamRequest_Route{Route: request(200)},
		}))
	}
	var reservations []uint64
	for id := uint64(1); id <= count; id++ {
		answer, err := stream.Recv()
		must(err)
		is("id", answer.GetId(), id)
		is("lease time", answer.GetRoute().GetLeaseTimeMs(), uint32(0))
		reservations = append(reservations, answer.GetRoute().GetReservation())
	}
	is("requests", c.requests(), uint32(count))
	for i, reservation := range reservations {
		must(stream.Send(&pb.RouteStreamRequest{
			Id: uint64(i), Message: &pb.RouteStreamRequest_Report{Report: ended(reservation)},
		}))
	}
	for range reservations {
		answer, err := stream.Recv()
		must(err)
		is("a report's answer", answer.GetReport() != nil, true)
	}
	is("requests", c.requests(), uint32(0))
	must(stream.Send(&pb.RouteStreamRequest{Id: 7}))
	answer, err := stream.Recv()
	must(err)
	is("code", codes.Code(answer.GetError().GetCode()), codes.InvalidArgument)
	is("reason", answer.GetError().GetReason(), "INVALID_REQUEST")
	must(stream.CloseSend())
	_, err = stream.Recv()
	is("end", err, io.EOF)
}

func (c checker) streamCancelled() {
	ctx, cancel := context.WithCancel(c.ctx)
	stream, err := c.router.RouteStream(ctx)
	must(err)
	for id := uint64(1); id <= 10; id++ {
		must(stream.Send(&pb.RouteStreamRequest{
			Id: id, Message: &pb.RouteStreamRequest_Route{Route: request(200)},
		}))
		_, err := stream.Recv()
		must(err)
	}
	is("requests", c.requests(), uint32(10))
	cancel()
	c.idle()
}

func (c checker) generate() {
	limit := uint32(4)
	asked := request(200)
	asked.MaxOutputTokens = &limit
	stream, err := c.router.Generate(c.ctx, &pb.GenerateRequest{Request: asked, ReturnTokenIds: true})
	must(err)
	response, err := stream.Recv()
	must(err)
	is("worker", response.GetRouted().GetDecision().GetWorker().GetUrl() != "", true)
	tokens := 0
	for {
		response, err = stream.Recv()
		must(err)
		if response.GetFinished() != nil {
			break
		}
		tokens += len(response.GetChunk().GetTokenIds())
	}
	is("tokens", tokens, 4)
	is("usage", response.GetFinished().GetUsage().GetCompletionTokens(), uint32(4))
	_, err = stream.Recv()
	is("end", err, io.EOF)
	c.idle()
}

func (c checker) generateCancelled() {
	ctx, cancel := context.WithCancel(c.ctx)
	stream, err := c.router.Generate(ctx, &pb.GenerateRequest{Request: endless()})
	must(err)
	for i := 0; i < 3; i++ {
		_, err := stream.Recv()
		must(err)
	}
	is("requests", c.requests(), uint32(1))
	cancel()
	_, err = stream.Recv()
	for err == nil {
		_, err = stream.Recv()
	}
	is("code", status.Code(err), codes.Canceled)
	c.idle()
}

func (c checker) generateOutOfTime() {
	ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
	defer cancel()
	stream, err := c.router.Generate(ctx, &pb.GenerateRequest{Request: endless()})
	must(err)
	for err == nil {
		_, err = stream.Recv()
	}
	is("code", status.Code(err), codes.DeadlineExceeded)
	c.idle()
}

func (c checker) changeFleet() {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	watch, err := c.fleet.WatchWorkers(ctx, &pb.WatchWorkersRequest{})
	must(err)
	event, err := watch.Recv()
	must(err)
	is("workers", len(event.GetWorkers().GetWorkers()), 2)
	added, err := c.fleet.AddWorker(c.ctx, &pb.AddWorkerRequest{Url: "http://127.0.0.1:9", Name: "added"})
	must(err)
	is("name", added.GetWorker().GetName(), "added")
	event, err = watch.Recv()
	must(err)
	is("changed", event.GetChanged().GetName(), "added")
	_, err = c.fleet.RemoveWorker(c.ctx, &pb.RemoveWorkerRequest{Name: "added"})
	must(err)
	for event.GetRemoved() == "" {
		event, err = watch.Recv()
		must(err)
	}
	is("removed", event.GetRemoved(), "added")
	_, err = c.fleet.DrainWorker(c.ctx, &pb.DrainWorkerRequest{Name: "added"})
	fails(err, codes.NotFound, "WORKER_NOT_FOUND", false, "")
}

func (c checker) health() {
	client := grpc_health_v1.NewHealthClient(c.conn)
	reply, err := client.Check(c.ctx, &grpc_health_v1.HealthCheckRequest{Service: "warmroute.v1.Router"})
	must(err)
	is("health", reply.GetStatus(), grpc_health_v1.HealthCheckResponse_SERVING)
}

// idle waits until no request is open.
func (c checker) idle() {
	deadline := time.Now().Add(10 * time.Second)
	for c.requests() > 0 {
		if time.Now().After(deadline) {
			fail("requests are open after 10 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c checker) requests() uint32 {
	list, err := c.fleet.ListWorkers(c.ctx, &pb.ListWorkersRequest{})
	must(err)
	var requests uint32
	for _, worker := range list.GetWorkers() {
		requests += worker.GetLoad().GetRequests()
	}
	return requests
}

func request(length int) *pb.RouteRequest {
	ids := make([]byte, 0, 4*length)
	for i := 0; i < length; i++ {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(i%500))
	}
	return &pb.RouteRequest{Model: "sim", Prompt: &pb.RouteRequest_TokenIds{TokenIds: ids}}
}

func endless() *pb.RouteRequest {
	limit := uint32(100_000)
	asked := request(200)
	asked.MaxOutputTokens = &limit
	return asked
}

func ended(reservation uint64) *pb.ReportRequest {
	ended := &pb.Ended{Outcome: pb.Outcome_OUTCOME_FINISHED}
	return &pb.ReportRequest{Reservation: reservation, Event: &pb.ReportRequest_Ended{Ended: ended}}
}

// fails checks a status and its details.
func fails(err error, code codes.Code, reason string, retry bool, field string) {
	if err == nil {
		fail(fmt.Sprintf("no error, where %v was expected", code))
	}
	is("code", status.Code(err), code)
	var foundReason, foundField string
	foundRetry := false
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			foundReason = detail.GetReason()
			is("domain", detail.GetDomain(), "warmroute")
		case *errdetails.RetryInfo:
			foundRetry = detail.GetRetryDelay().AsDuration() > 0
		case *errdetails.BadRequest:
			foundField = detail.GetFieldViolations()[0].GetField()
		}
	}
	is("reason", foundReason, reason)
	is("retry", foundRetry, retry)
	if field != "" {
		is("field", foundField, field)
	}
}

func is[T comparable](what string, found, expected T) {
	if found != expected {
		fail(fmt.Sprintf("%s is %v, and not %v", what, found, expected))
	}
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	panic(why)
}
