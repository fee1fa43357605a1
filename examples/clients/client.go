// Samples 256 of 10,000 random points and prints the rows. Tried with gRPC 1.33, where NewClient is Dial and insecure
// is WithInsecure.
//
// The options name the Go package; google/rpc has published Go code. In a clone:
//
//   FILES=$(cd proto && find farpoint -name '*.proto')
//   M=$(printf 'M%s=example.com/gen,' $FILES)module=example.com/gen
//   protoc -Iproto --go_out=$M:gen --go-grpc_out=$M:gen $FILES

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math/rand"

	fp "example.com/gen"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	connection, err := grpc.NewClient("127.0.0.1:50051",
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	cloud := make([]float32, 3*10000)
	for i := range cloud {
		cloud[i] = rand.Float32()
	}
	var data bytes.Buffer
	binary.Write(&data, binary.LittleEndian, cloud)
	points := &fp.Tensor{DataType: fp.DataType_DATA_TYPE_FLOAT32, Shape: []int64{10000, 3}, Data: data.Bytes()}
	response, err := fp.NewSamplingServiceClient(connection).Sample(
		context.Background(), &fp.SampleRequest{Points: points, SampleCounts: []int64{256}})
	if err != nil {
		log.Fatal(err)
	}
	rows := make([]int32, 256)
	binary.Read(bytes.NewReader(response.Indices.Data), binary.LittleEndian, rows)
	fmt.Println(rows)
}
