// Samples 256 of 10,000 random points and prints the rows. Tried with gRPC 1.51.
//
// On Debian: apt install g++ pkg-config libgrpc++-dev protobuf-compiler-grpc; then in a clone:
//
//   mkdir gen
//   protoc -Iproto --cpp_out=gen --grpc_out=gen --plugin=protoc-gen-grpc=$(which grpc_cpp_plugin) $(cd proto && find farpoint google -name '*.proto')
//   g++ -std=c++17 -Igen examples/clients/client.cpp $(find gen -name '*.cc') $(pkg-config --cflags --libs grpc++ protobuf) -o client

#include <grpcpp/grpcpp.h>
#include <iostream>
#include "farpoint/v1/sampling.grpc.pb.h"
namespace fp = farpoint::v1;

int main() {
  auto stub = fp::SamplingService::NewStub(
      grpc::CreateChannel("127.0.0.1:50051", grpc::InsecureChannelCredentials()));
  std::vector<float> cloud(3 * 10000);
  for (float& value : cloud) value = float(rand()) / RAND_MAX;
  fp::SampleRequest request;
  request.mutable_points()->set_data_type(fp::DATA_TYPE_FLOAT32);
  for (int size : {10000, 3}) request.mutable_points()->add_shape(size);
  request.mutable_points()->set_data(cloud.data(), cloud.size() * sizeof(float));
  request.add_sample_counts(256);
  grpc::ClientContext context;
  fp::SampleResponse response;
  grpc::Status status = stub->Sample(&context, request, &response);
  if (!status.ok()) return std::cerr << status.error_message() << "\n", 1;
  auto* rows = reinterpret_cast<const int32_t*>(response.indices().data().data());
  for (int i = 0; i < 256; ++i) std::cout << rows[i] << " ";
}
