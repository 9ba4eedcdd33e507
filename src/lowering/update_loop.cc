#include <utility>

#include "src/lowering/update.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::kNone;

UpdateLoop::UpdateLoop(TrainingStep& step, StreamId stream, std::span<const BufferUse> uses,
                       std::span<const program::Effect> updates)
    : builder_(step.builder()),
      stream_(stream),
      uses_(uses),
      updates_(updates),
      temporary_name_{.first = builder_.AddText("optimizer temporaries")} {}

Index UpdateLoop::Make(Bytes size) {
  if (counting_) return kNone;
  std::vector<Index>& free = free_[size.count()];
  if (free.empty()) {
    free.push_back(builder_.AddBuffer(temporary_name_, size, program::Category::kWorkspace));
  }
  const Index buffer = free.back();
  free.pop_back();
  builder_.Allocate(stream_, buffer);
  return buffer;
}

void UpdateLoop::Free(Index buffer) {
  if (counting_) return;
  builder_.Release(buffer);
  free_[builder_.SizeOf(buffer).count()].push_back(buffer);
}

template <typename Add>
void UpdateLoop::RunKernel(
    const std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>& key,
    const Add& add, std::initializer_list<Index> temporaries) {
  if (counting_) {
    ++kernels_;
    return;
  }
  const auto [found, is_new] = known_.try_emplace(key, kNone);
  if (is_new) found->second = builder_.AddKernel(add());
  const bool last = written_ + 1 == kernels_;
  if (written_ == 0 || last) builder_.Use(uses_);
  for (const Index buffer : temporaries) builder_.Use(builder_.WritesAll(buffer));
  if (last) builder_.With(updates_);
  builder_.Run(stream_, found->second);
  ++written_;
}

void UpdateLoop::Run(const char* name, DataType type, Bytes read, Bytes written,
                     std::initializer_list<Index> temporaries) {
  RunKernel(
      {name, read.count(), written.count(), static_cast<std::int64_t>(type), 0},
      [&] {
        return Kernel{.name = name,
                      .kind = KernelKind::kOptimizer,
                      .data_type = type,
                      .read = read,
                      .written = written};
      },
      temporaries);
}

void UpdateLoop::Multiply(const Product& product, std::initializer_list<Index> temporaries) {
  const auto& [name, batch, m, n, k, size, adds, layout] = product;
  RunKernel(
      {name, batch, m, n, k},
      [&, batch = batch, m = m, n = n, k = k] {
        const std::int64_t operands = m * k + k * n + (product.adds ? m * n : 0);
        return Kernel{.name = product.name,
                      .kind = KernelKind::kGemm,
                      .data_type = DataType::kBf16,
                      .batch = batch,
                      .m = m,
                      .n = n,
                      .k = k,
                      .layout = product.layout,
                      .flops = 2 * batch * m * n * k,
                      .read = Bytes(batch * operands * product.size),
                      .written = Bytes(batch * m * n * product.size)};
      },
      temporaries);
}

void UpdateLoop::AwaitOnHost() {
  if (counting_) return;
  if (read_by_host_ == kNone) read_by_host_ = builder_.AddEvent("update of a tensor");
  builder_.Record(stream_, read_by_host_);
  builder_.HostWait(read_by_host_);
}

Index UpdateLoop::Exchange(StreamId stream, Index communicator, Bytes bytes, Index source,
                           Index target) {
  if (counting_) return kNone;
  const auto event = [this] {
    if (free_events_.empty()) free_events_.push_back(builder_.AddEvent("matrix exchange"));
    const Index taken = free_events_.back();
    free_events_.pop_back();
    return taken;
  };
  const Index ready = event();
  builder_.WaitForStream(stream, stream_, ready);
  free_events_.push_back(ready);
  builder_.Communicate(stream,
                       builder_.AddCollective({.kind = CollectiveKind::kAllToAll,
                                               .communicator = communicator,
                                               .bytes = bytes,
                                               .data_type = DataType::kBf16}),
                       {builder_.ReadsAll(source), builder_.WritesAll(target)});
  const Index done = event();
  builder_.Record(stream, done);
  return done;
}

void UpdateLoop::Await(Index event) {
  if (counting_) return;
  builder_.Wait(stream_, event);
  free_events_.push_back(event);
}

}  // namespace stepcast::lowering
