// torch's own CUDA kernels as the CPU's ops on the same bytes, in the order of their stream: the
// wheel of torch holds machine code alone, which nothing here could execute.
//
// Memory is that of torch's own caching allocator. Like a kernel, queued work holds addresses and no
// tensors, so that what is freed too early is used too late.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "softgpu.h"

extern "C" int cudaStreamSynchronize(void* stream);

namespace at::native {
Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking);
}

namespace {

using c10::IValue;
using torch::jit::Stack;
constexpr int kDeviceAssert = 710;

struct Range {
  uint64_t begin;
  size_t bytes;
  bool reads, writes;
};
struct Job {
  c10::OperatorHandle op;
  Stack stack;                    // arguments in host memory
  std::vector<at::Tensor> outs;  // where results go that the op makes itself
  std::vector<Range> ranges;
};

void* stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device).native_handle();
}

// The dimensions of a tensor that take it through memory, by their strides.
struct Dimension {
  int64_t stride, size;  // in bytes, in elements
  bool operator<(const Dimension& other) const { return stride < other.stride; }
};
std::vector<Dimension> dimensions_of(const at::Tensor& t) {
  std::vector<Dimension> all;
  for (int64_t i = 0; i < t.dim(); ++i) {
    const int64_t stride = t.stride(i) * static_cast<int64_t>(t.element_size());
    if (t.size(i) > 1 && stride > 0) all.push_back({stride, t.size(i)});
  }
  std::sort(all.begin(), all.end());
  return all;
}

// The bytes of its elements and of no others, as long as that is not too many pieces.
void add_ranges(const at::Tensor& t, bool reads, bool writes, std::vector<Range>& ranges) {
  if (t.numel() == 0) return;
  constexpr int64_t kMostPieces = 1 << 16;
  auto bytes = static_cast<int64_t>(t.element_size()), pieces = int64_t{1};
  std::vector<Dimension> outer;
  for (const Dimension& d : dimensions_of(t)) {
    if (outer.empty() && d.stride == bytes) {
      bytes *= d.size;
    } else if (pieces * d.size <= kMostPieces) {
      pieces *= d.size;
      outer.push_back(d);
    } else {
      bytes += d.stride * (d.size - 1);
    }
  }
  const auto begin = reinterpret_cast<uint64_t>(t.const_data_ptr());
  for (int64_t piece = 0; piece < pieces; ++piece) {
    int64_t rest = piece, offset = 0;
    for (const Dimension& d : outer) {
      offset += rest % d.size * d.stride;
      rest /= d.size;
    }
    ranges.push_back({begin + static_cast<uint64_t>(offset), static_cast<size_t>(bytes), reads, writes});
  }
}

// The tensor in host memory, and its bytes among those that the job touches.
at::Tensor on_host(const at::Tensor& t, Job& job, bool writes) {
  if (!t.defined() || !t.is_cuda()) return t;
  const auto options = at::TensorOptions().dtype(t.dtype());
  if (t.numel() == 0) return at::empty_strided(t.sizes(), t.strides(), options);
  void* const at = softgpu_alias(reinterpret_cast<uint64_t>(t.const_data_ptr()));
  TORCH_CHECK(at, "softgpu: a tensor of cuda lies in no memory of a device");
  add_ranges(t, !writes, writes, job.ranges);
  at::Tensor host = at::from_blob(at, t.sizes(), t.strides(), options);
  return t.is_conj() ? host.conj() : t.is_neg() ? host._neg_view() : host;
}

at::Tensor on_meta(const at::Tensor& t) {
  if (!t.defined() || t.is_meta()) return t;
  return at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
}

at::Tensor zeros_of(const at::Tensor& t) {
  if (!t.defined() || !t.is_cuda()) return t;
  return at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kCPU)).zero_();
}

// Ops that say nothing of their results on tensors without memory, though these depend on no data.
const std::set<std::string> kShaped = {"aten::_slow_conv2d_forward"};

// The value with `change` applied to its tensors, on another device, without a generator.
template <typename Change>
IValue changed(const IValue& value, const Change& change, c10::Device device) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isDevice()) return device;
  if (value.isGenerator()) return IValue();
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& t : value.toTensorVector()) all.push_back(change(t));
    return all;
  }
  if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> all;
    for (const IValue& item : value.toListRef()) {
      all.push_back(item.isTensor() ? std::optional(change(item.toTensor())) : std::nullopt);
    }
    return all;
  }
  return value;
}

template <typename Visit>
void each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) visit(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& t : value.toTensorVector()) visit(t);
}

void perform(const Job& job) {
  const c10::InferenceMode guard;
  Stack stack = job.stack;
  job.op.callBoxed(&stack);
  size_t next = 0;
  for (const IValue& result : stack) {
    each_tensor(result, [&](const at::Tensor& t) {
      // The CPU's op may leave out what no one reads: a normalization that does not train.
      const bool wanted = next < job.outs.size() && job.outs[next].defined() && t.numel() > 0;
      if (wanted) job.outs[next].copy_(t);
      ++next;
    });
  }
}

// On the stream's thread. An index out of range is an assertion of the device.
int run(void* data) {
  const auto* const job = static_cast<const Job*>(data);
  for (const Range& range : job->ranges) {
    if (const int code = softgpu_touch(range.begin, range.bytes, range.reads, range.writes))
      return code;
  }
  try {
    perform(*job);
  } catch (const std::exception& error) {
    fprintf(stderr, "softgpu: %s: %.400s\n", job->op.schema().name().c_str(), error.what());
    return kDeviceAssert;
  }
  return 0;
}

std::string title(const c10::OperatorHandle& op) {
  const auto& overload = op.schema().overload_name();
  return op.schema().name() + (overload.empty() ? "" : "." + overload);
}

// An op on the arguments on top of a stack.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack)
      : op_(op), stack_(stack), first_(stack.size() - op.schema().arguments().size()) {
    for (size_t i = 0; i < count(); ++i) {
      const IValue& value = stack_[first_ + i];
      if (value.isDevice() && value.toDevice().is_cuda()) device_ = value.toDevice();
      each_tensor(value, [&](const at::Tensor& t) {
        if (t.defined() && t.is_cuda() && !device_) device_ = t.device();
      });
      if (writes(i)) in_place_ = true;
    }
    TORCH_CHECK(device_, "softgpu: nothing of a device in a call of ", op.schema().name());
  }

  void run() {
    const c10::DeviceGuard guard(*device_);
    auto job = std::make_unique<Job>(Job{op_, {}, {}, {}});
    std::vector<IValue> results;
    Stack metas;
    if (in_place_) {
      resize_outs();
      results = written();
    } else if (!infer(metas)) {
      return run_now(*job);
    }
    fill(*job);
    for (const IValue& meta : metas)
      results.push_back(changed(meta, [&](const at::Tensor& t) { return make(t, *job); }, *device_));
    softgpu_enqueue(stream_of(*device_), title(op_).c_str(), ::run, job.release(),
                    [](void* data) { delete static_cast<Job*>(data); });
    answer(std::move(results));
  }

 private:
  size_t count() const { return op_.schema().arguments().size(); }
  bool writes(size_t i) const {
    const auto* const info = op_.schema().arguments()[i].alias_info();
    return info && info->isWrite();
  }

  // Shapes of the results, by the same op on tensors without memory; false where they depend on
  // data.
  bool infer(Stack& metas) const {
    const bool shaped = kShaped.count(op_.schema().name());
    for (size_t i = 0; i < count(); ++i)
      metas.push_back(shaped ? changed(stack_[first_ + i], zeros_of, at::kCPU)
                             : changed(stack_[first_ + i], on_meta, at::kMeta));
    try {
      op_.callBoxed(&metas);
    } catch (const std::exception&) {
      return false;
    }
    for (IValue& meta : metas) meta = changed(meta, on_meta, at::kMeta);
    return true;
  }

  void resize_outs() {
    Stack metas;
    if (!op_.schema().arguments().back().is_out() || !infer(metas)) return;
    size_t result = 0;
    for (size_t i = 0; i < count(); ++i) {
      if (!op_.schema().arguments()[i].is_out() || result >= metas.size()) continue;
      const IValue& meta = metas[result++];
      at::Tensor out = stack_[first_ + i].toTensor();
      if (meta.isTensor() && meta.toTensor().sizes() != out.sizes())
        out.resize_(meta.toTensor().sizes());
    }
  }

  std::vector<IValue> written() const {
    std::vector<IValue> results;
    for (size_t i = 0; i < count() && results.size() < op_.schema().returns().size(); ++i)
      if (writes(i)) results.push_back(stack_[first_ + i]);
    return results;
  }

  void fill(Job& job) const {
    for (size_t i = 0; i < count(); ++i) {
      const auto host = [&](const at::Tensor& t) { return on_host(t, job, writes(i)); };
      job.stack.push_back(changed(stack_[first_ + i], host, at::kCPU));
    }
  }

  at::Tensor make(const at::Tensor& meta, Job& job) const {
    if (!meta.defined() || !meta.is_meta()) {
      job.outs.emplace_back();
      return meta;
    }
    const auto options = meta.options().device(*device_);
    const at::Tensor made = at::empty_strided(meta.sizes(), meta.strides(), options);
    job.outs.push_back(on_host(made, job, true));
    return made;
  }

  // Real kernels wait here too, for the number of results.
  void run_now(Job& job) {
    fill(job);
    const int code = cudaStreamSynchronize(stream_of(*device_));
    TORCH_CHECK(code == 0, "softgpu: ", op_.schema().name(), " waits: CUDA error ", code);
    op_.callBoxed(&job.stack);
    std::vector<IValue> results;
    const auto moved = [&](const at::Tensor& t) { return t.defined() ? t.to(*device_) : t; };
    for (const IValue& value : job.stack) results.push_back(changed(value, moved, *device_));
    answer(std::move(results));
  }

  void answer(std::vector<IValue> results) {
    stack_.resize(first_);
    for (IValue& result : results) stack_.push_back(std::move(result));
  }

  const c10::OperatorHandle& op_;
  Stack& stack_;
  size_t first_;
  std::optional<c10::Device> device_;
  bool in_place_ = false;
};

void on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  Call(op, *stack).run();
}

// Copies between devices and of equal layout are the runtime's own; the others are kernels.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const bool within = self.is_cuda() && source.is_cuda() && self.device() == source.device();
  const bool plain = self.dtype() == source.dtype() && self.sizes() == source.sizes() &&
                     self.strides() == source.strides() && self.is_non_overlapping_and_dense() &&
                     self.is_conj() == source.is_conj() && self.is_neg() == source.is_neg();
  if (!within || plain || self.numel() == 0) return at::native::copy_(self, source, non_blocking);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  Stack stack = {self, source, non_blocking};
  Call(op, stack).run();
  return self;
}

// Ops of the allocator and of shapes alone, which run as they are.
const std::set<std::string> kKept = {
    "empty", "empty_strided", "as_strided", "view", "copy_", "set_", "resize_", "_reshape_alias",
    "unfold", "view_as_real", "view_as_complex", "record_stream", "_local_scalar_dense",
    "is_set_to", "_pin_memory", "is_pinned", "_efficientzerotensor", "_unsafe_view", "lift",
    "alias", "_to_copy", "clone", "_has_compatible_shallow_copy_type", "_cudnn_init_dropout_state"};
using Key = c10::DispatchKey;

bool taken_over(const c10::OperatorHandle& op) {
  return op.hasSchema() && op.hasKernelForDispatchKey(Key::CUDA) &&
         (op.hasKernelForDispatchKey(Key::CPU) ||
          op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd));
}

}  // namespace

// Replaces torch's kernels for the rest of the process; how many there are.
extern "C" __attribute__((visibility("default"))) int softgpu_take_over() {
  static auto& library = *new torch::Library(torch::Library::IMPL, "aten", Key::CUDA, __FILE__, __LINE__);
  int count = 0;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.getNamespace() != "aten" || kKept.count(name.name.substr(6))) continue;
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !taken_over(*op)) continue;
    const std::string plain = name.name.substr(6);
    const std::string full = name.overload_name.empty() ? plain : plain + "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
    ++count;
  }
  library.impl("copy_", copy);
  return count;
}
