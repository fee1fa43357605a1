// Samples 256 of 10,000 random points and prints the rows. Not compiled here. With tonic 0.12, prost, tokio and rand;
// build.rs:
//
//   fn main() -> std::io::Result<()> {
//       tonic_build::configure().build_server(false)
//           .compile_protos(&["proto/farpoint/v1/sampling.proto"], &["proto"])
//   }

pub mod google { pub mod rpc { tonic::include_proto!("google.rpc"); } }
pub mod farpoint { pub mod v1 { tonic::include_proto!("farpoint.v1"); } }
use farpoint::v1::{sampling_service_client::SamplingServiceClient, DataType, SampleRequest, Tensor};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut client = SamplingServiceClient::connect("http://127.0.0.1:50051").await?;
    let data = (0..3 * 10000).flat_map(|_| rand::random::<f32>().to_le_bytes()).collect();
    let points = Tensor { data_type: DataType::Float32.into(), shape: vec![10000, 3], data, ..Default::default() };
    let request = SampleRequest { points: Some(points), sample_counts: vec![256], ..Default::default() };
    let indices = client.sample(request).await?.into_inner().indices.unwrap();
    let rows: Vec<i32> = indices.data.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect();
    println!("{rows:?}");
    Ok(())
}
