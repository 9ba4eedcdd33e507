#include "src/lowering/comm_hook.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/lowering/step_parts.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;
using program::kNone;

CommHook::CommHook(TrainingStep& step)
    : step_(step),
      builder_(step.builder()),
      hook_(step.plan().data_parallel.comm_hook),
      settings_(step.plan().data_parallel.powersgd) {}

void CommHook::WritePrologue(StreamId reduction, Index communicator) {
  if (!active()) return;
  reduction_ = reduction;
  communicator_ = communicator;
  stream_ = builder_.AddStream("comm hook");
  if (hook_ == plan::CommHook::kPowerSgd) all_done_ = builder_.AddEvent("all of PowerSGD done");
}

Index CommHook::AddKernel(const char* name, DataType type, Bytes read, Bytes written) {
  return builder_.AddKernel(MemoryKernel(name, type, read, written));
}

Index CommHook::AddProduct(const char* name, DataType type, std::int64_t m, std::int64_t n,
                           std::int64_t k) {
  return builder_.AddKernel({.name = name,
                             .kind = KernelKind::kGemm,
                             .data_type = type,
                             .m = m,
                             .n = n,
                             .k = k,
                             .flops = 2 * m * n * k,
                             .read = BytesOf(m * k + k * n, type),
                             .written = BytesOf(m * n, type)});
}

void CommHook::AddBucket(Index buffer, std::span<const int> tensors, DataType type) {
  if (!active()) return;
  HookedBucket& bucket = buckets_.emplace_back();
  bucket.values = buffer;
  bucket.type = type;
  bucket.ready = builder_.AddEvent("hook of bucket " + std::to_string(buckets_.size() - 1));
  if (hook_ == plan::CommHook::kPowerSgd) {
    AddFactors(bucket, tensors);
  } else {
    AddCasts(bucket);
  }
}

void CommHook::AddCasts(HookedBucket& bucket) {
  const DataType sent = hook_ == plan::CommHook::kFp16Compress ? DataType::kFp16 : DataType::kBf16;
  const Bytes whole = builder_.SizeOf(bucket.values);
  const Bytes half = BytesOf(whole.count() / SizeOf(bucket.type), sent);
  bucket.sent = builder_.AddBuffer("compressed bucket " + std::to_string(buckets_.size() - 1), half,
                                   Category::kCommunication);
  bucket.compress = AddKernel("compress_bucket", bucket.type, whole, half);
  bucket.divide = AddKernel("divide_bucket", sent, half, half);
  bucket.restore = AddKernel("decompress_bucket", bucket.type, half, whole);
  bucket.all_reduce = builder_.AddAllReduce(communicator_, half, sent);
}

// Gram-Schmidt, column by column: its norm, the division; the others' products with it summed up,
// and their part along it taken away. In place.
std::vector<Index> CommHook::AddOrthogonalisation(std::int64_t rows, std::int64_t rank,
                                                  DataType type) {
  std::vector<Index> kernels;
  if (rank > 2 && type == DataType::kFp32) {
    const Bytes size = BytesOf(rows * rank, type);
    kernels.push_back(AddKernel("qr", type, size, size));
    return kernels;
  }
  const Bytes column = BytesOf(rows, type);
  for (std::int64_t i = 0; i < rank; ++i) {
    kernels.push_back(AddKernel("column_norm", type, column, Bytes(SizeOf(type))));
    kernels.push_back(AddKernel("normalise_column", type, column, column));
    const Bytes others = BytesOf(rows * (rank - 1 - i), type);
    if (others == Bytes(0)) continue;
    kernels.push_back(AddKernel("times_column", type, others + column, others));
    kernels.push_back(AddKernel("sum_along_column", type, others, Bytes(SizeOf(type))));
    kernels.push_back(AddKernel("times_column", type, column, others));
    kernels.push_back(AddKernel("subtract_column", type, others + others, others));
  }
  return kernels;
}

void CommHook::AddFactors(HookedBucket& bucket, std::span<const int> tensors) {
  const std::string name = " of bucket " + std::to_string(buckets_.size() - 1);
  const DataType type = bucket.type;
  const Bytes whole = builder_.SizeOf(bucket.values);
  Bytes offset, p_size, q_size, rest_size;
  for (const int t : tensors) {
    const model::Tensor& tensor = step_.model().tensors[t];
    const Bytes size = BytesOf(tensor.elements, type);
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
    const std::int64_t columns = rows == 0 ? 0 : tensor.elements / rows;
    plan::PowerSgd settings = settings_;
    settings.rank = std::min({rows, columns, settings.rank});
    if (settings.rank > 0 && plan::Compresses(settings, rows, columns)) {
      Matrix& matrix = bucket.matrices.emplace_back();
      matrix.offset = offset;
      matrix.size = size;
      matrix.p_offset = p_size;
      matrix.p_size = BytesOf(rows * settings.rank, type);
      matrix.q_offset = q_size;
      matrix.q_size = BytesOf(columns * settings.rank, type);
      p_size += matrix.p_size;
      q_size += matrix.q_size;
      matrix.orthogonal_p = AddOrthogonalisation(rows, settings.rank, type);
      matrix.orthogonal_q = AddOrthogonalisation(columns, settings.rank, type);
      matrix.make_p = AddProduct("powersgd_p", type, rows, settings.rank, columns);
      matrix.make_q = AddProduct("powersgd_q", type, columns, settings.rank, rows);
      matrix.restore = AddProduct("powersgd_restore", type, rows, columns, settings.rank);
    } else {
      bucket.rests.push_back({.offset = offset,
                              .size = size,
                              .at = rest_size,
                              .copy_back = AddKernel("copy_back", type, size, size)});
      rest_size += size;
    }
    offset += size;
  }
  const auto add = [&](const std::string& what, Bytes size) {
    return builder_.AddBuffer(what + name, size, Category::kCommunication);
  };
  if (settings_.error_feedback) {
    bucket.error = add("error", whole);
    bucket.copy = add("copy", whole);
    builder_.Allocate(step_.compute(), bucket.error);
    bucket.add_error = AddKernel("add_error", type, whole + whole, whole);
    bucket.keep_copy = AddKernel("keep_copy", type, whole, whole);
    bucket.subtract = AddKernel("new_error", type, whole + whole, whole);
  }
  if (!bucket.rests.empty()) {
    bucket.sent = add("uncompressed tensors", rest_size);
    bucket.collect = AddKernel("collect_uncompressed", type, rest_size, rest_size);
    bucket.divide_rest = AddKernel("divide_uncompressed", type, rest_size, rest_size);
    bucket.all_reduce = builder_.AddAllReduce(communicator_, rest_size, type);
  }
  if (bucket.matrices.empty()) return;
  bucket.p = add("P", p_size);
  bucket.q = add("Q", q_size);
  if (settings_.warm_start) {
    builder_.Allocate(step_.compute(), bucket.p);
    builder_.Allocate(step_.compute(), bucket.q);
  }
  bucket.divide_q = AddKernel("divide_q", type, q_size, q_size);
  bucket.reduce_p = builder_.AddAllReduce(communicator_, p_size, type);
  bucket.reduce_q = builder_.AddAllReduce(communicator_, q_size, type);
}

void CommHook::Run(std::size_t bucket, Index reduced) {
  if (hook_ == plan::CommHook::kPowerSgd) {
    RunFactors(buckets_[bucket], reduced);
  } else {
    RunCasts(buckets_[bucket], reduced);
  }
}

void CommHook::Reduce(HookedBucket& bucket, StreamId after, Index collective, Index buffer) {
  builder_.WaitForStream(reduction_, after, bucket.ready);
  builder_.Communicate(reduction_, collective, {builder_.WritesAll(buffer)});
  builder_.WaitForStream(stream_, reduction_, bucket.ready);
}

void CommHook::RunCasts(HookedBucket& bucket, Index reduced) {
  const StreamId compute = step_.compute();
  const DataType type = hook_ == plan::CommHook::kFp16Compress ? DataType::kFp16 : DataType::kBf16;
  const std::int64_t elements = builder_.SizeOf(bucket.sent).count() / SizeOf(type);
  const program::Elements sent = At(bucket.sent, 0, type);
  const program::Elements values = At(bucket.values, 0, bucket.type);
  builder_.Allocate(compute, bucket.sent);
  builder_.With(Move(sent, values, elements));
  builder_.Run(compute, bucket.compress,
               {builder_.ReadsAll(bucket.values), builder_.WritesAll(bucket.sent)});
  builder_.With(Scaled(1.0 / static_cast<double>(plan::GradientRanks(step_.plan())),
                       Move(sent, sent, elements)));
  builder_.Run(compute, bucket.divide, {builder_.WritesAll(bucket.sent)});
  builder_.WaitForStream(reduction_, compute, bucket.ready);
  builder_.With(Collected(sent, sent, elements));
  builder_.Communicate(reduction_, bucket.all_reduce, {builder_.WritesAll(bucket.sent)});
  builder_.WaitForStream(stream_, reduction_, bucket.ready);
  builder_.With(Move(values, sent, elements));
  builder_.Run(stream_, bucket.restore,
               {builder_.ReadsAll(bucket.sent), builder_.WritesAll(bucket.values)});
  builder_.Record(stream_, reduced);
}

void CommHook::RunFactors(HookedBucket& bucket, Index reduced) {
  const StreamId compute = step_.compute();
  const auto run = [&](StreamId stream, Index kernel, std::initializer_list<BufferUse> uses) {
    builder_.Run(stream, kernel, uses);
  };
  if (bucket.error != kNone) {
    run(compute, bucket.add_error,
        {builder_.ReadsAll(bucket.error), builder_.WritesAll(bucket.values)});
    builder_.Allocate(compute, bucket.copy);
    run(compute, bucket.keep_copy,
        {builder_.ReadsAll(bucket.values), builder_.WritesAll(bucket.copy)});
  }
  if (bucket.all_reduce != kNone) {
    builder_.Allocate(compute, bucket.sent);
    run(compute, bucket.collect,
        {builder_.ReadsAll(bucket.values), builder_.WritesAll(bucket.sent)});
  }
  if (!settings_.warm_start && bucket.p != kNone) {
    builder_.Allocate(compute, bucket.p);
    builder_.Allocate(compute, bucket.q);
  }
  const auto values = [&](const Matrix& m) { return Reads(bucket.values, m.offset, m.size); };
  const auto p = [&](const Matrix& m, bool write) {
    return BufferUse{.buffer = bucket.p, .write = write, .offset = m.p_offset, .size = m.p_size};
  };
  const auto q = [&](const Matrix& m, bool write) {
    return BufferUse{.buffer = bucket.q, .write = write, .offset = m.q_offset, .size = m.q_size};
  };
  for (const Matrix& m : bucket.matrices) {
    // Without the factors of an earlier step, random numbers are drawn on the host.
    if (!settings_.warm_start) {
      builder_.ToDevice(compute, m.q_size, {q(m, true)});
    }
    for (const Index kernel : m.orthogonal_q) run(compute, kernel, {q(m, true)});
  }
  for (const Matrix& m : bucket.matrices) {
    run(compute, m.make_p, {values(m), q(m, false), p(m, true)});
  }
  StreamId before = compute;
  if (bucket.all_reduce != kNone) {
    Reduce(bucket, compute, bucket.all_reduce, bucket.sent);
    before = stream_;
    run(stream_, bucket.divide_rest, {builder_.WritesAll(bucket.sent)});
    for (const Rest& rest : bucket.rests) {
      run(stream_, rest.copy_back,
          {Reads(bucket.sent, rest.at, rest.size), Writes(bucket.values, rest.offset, rest.size)});
    }
  }
  if (!bucket.matrices.empty()) {
    Reduce(bucket, before, bucket.reduce_p, bucket.p);
    for (const Matrix& m : bucket.matrices) {
      for (const Index kernel : m.orthogonal_p) run(stream_, kernel, {p(m, true)});
    }
    for (const Matrix& m : bucket.matrices) {
      run(stream_, m.make_q, {values(m), p(m, false), q(m, true)});
    }
    Reduce(bucket, stream_, bucket.reduce_q, bucket.q);
    run(stream_, bucket.divide_q, {builder_.WritesAll(bucket.q)});
    for (const Matrix& m : bucket.matrices) {
      run(stream_, m.restore, {p(m, false), q(m, false), Writes(bucket.values, m.offset, m.size)});
    }
  }
  // torch.cuda.synchronize(): waits for all streams.
  builder_.WaitForStream(stream_, compute, all_done_);
  builder_.Record(stream_, all_done_);
  builder_.HostWait(all_done_);
  if (bucket.error != kNone) {
    run(stream_, bucket.subtract,
        {builder_.ReadsAll(bucket.copy), builder_.ReadsAll(bucket.values),
         builder_.WritesAll(bucket.error)});
  }
  builder_.Record(stream_, reduced);
}

void CommHook::Release(std::size_t index) {
  HookedBucket& bucket = buckets_[index];
  if (bucket.sent != kNone) builder_.Release(bucket.sent);
  if (bucket.copy != kNone) builder_.Release(bucket.copy);
  if (bucket.p != kNone && !settings_.warm_start) {
    builder_.Release(bucket.p);
    builder_.Release(bucket.q);
  }
}

}  // namespace stepcast::lowering
