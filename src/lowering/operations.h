#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/layouts.h"

// What data parallelism does with parameters and gradients: copy, cast, accumulate, scale, gather,
// reduce. Each call writes one operation; the instruction, the buffers that it uses, what it does
// to values, and what a kernel moves or a collective sends follow from source and target.
namespace stepcast::lowering {

class Operations {
 public:
  explicit Operations(ProgramBuilder& builder) : builder_(builder) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  ProgramBuilder& builder() { return builder_; }

  // A buffer of so many elements, of which `exact` are the model's and the rest padding.
  Range AddRange(const program::NameParts& name, std::int64_t elements, DataType type,
                 program::Category category, std::int64_t exact);
  Range AddRange(const program::NameParts& name, std::int64_t elements, DataType type,
                 program::Category category) {
    return AddRange(name, elements, type, category, elements);
  }
  // One rank's share of `exact` elements over all `ranks`: what is more than exact / ranks is
  // padding.
  Range AddShard(const program::NameParts& name, std::int64_t elements, DataType type,
                 program::Category category, std::int64_t exact, std::int64_t ranks);
  // Of a whole buffer.
  void Allocate(StreamId owner, const Range& range) { builder_.Allocate(owner, range.buffer()); }
  void Release(const Range& range) { builder_.Release(range.buffer()); }

  // Kernels; `name` is a literal.
  // target = scale x source, converted to the target's type.
  void Copy(StreamId stream, const char* name, const Range& target, const Range& source,
            double scale = 1) {
    Reads(source);
    Writes(target);
    Moves(target, source, scale);
    Run(stream, name);
  }
  // target += source; or target = source where `add` is false, at the same cost.
  void Accumulate(StreamId stream, const char* name, const Range& target, const Range& source,
                  bool add = true) {
    Reads(source);
    Updates(target);
    if (builder_.describes_data_flow()) {
      const program::Effect move = Move(target.place, source.place, Shorter(target, source));
      builder_.With(add ? Added(move) : move);
    }
    Run(stream, name);
  }
  // In place.
  void Scale(StreamId stream, const char* name, const Range& range, double scale) {
    Updates(range);
    Moves(range, range, scale);
    Run(stream, name);
  }

  // A kernel piece by piece: what it reads, writes and does, then Run.
  void Reads(const Range& range) {
    Use(range, false);
    read_ += range.size();
  }
  void Writes(const Range& range) {
    Use(range, true);
    written_ += range.size();
    type_ = range.type();
  }
  // Reads it and writes it.
  void Updates(const Range& range) {
    Writes(range);
    read_ += range.size();
  }
  // The shorter of both goes from one to the other: the rest is padding.
  void Moves(const Range& target, const Range& source, double scale = 1) {
    if (!builder_.describes_data_flow()) return;
    builder_.With(Scaled(scale, Move(target.place, source.place, Shorter(target, source))));
  }
  // For kernels that move other amounts than what their ranges hold.
  void Traffic(Bytes read, Bytes written, Access access = Access::kPlain) {
    read_ = read;
    written_ = written;
    access_ = access;
  }
  void Run(StreamId stream, const char* name);

  // Collectives of ranges' own types. A part that lies in the whole is one use with it.
  void AllReduce(StreamId stream, Index communicator, const Range& range, bool average = false);
  void ReduceScatter(StreamId stream, Index communicator, const Range& part, const Range& whole,
                     bool average = false);
  void AllGather(StreamId stream, Index communicator, const Range& whole, const Range& part);

 private:
  // The same kernel twice is one entry of the program's table.
  struct Known {
    Bytes read, written;
    const char* name;
    DataType type;
    Access access;
    Index kernel;
  };

  void Use(const Range& range, bool write) {
    program::BufferUse use{.buffer = range.buffer(), .write = write};
    if (range.of_rank) {
      use.size = builder_.SizeOf(use.buffer);
    } else {
      use.offset = range.place.offset;
      use.size = range.size();
    }
    builder_.Use(use);
  }

  static std::int64_t Shorter(const Range& a, const Range& b) {
    return a.elements < b.elements ? a.elements : b.elements;
  }
  Index KernelOf(const char* name);
  void Communicate(StreamId stream, CollectiveKind kind, Index communicator, const Range& target,
                   const Range& source, const Range& whole, bool average);

  ProgramBuilder& builder_;
  // Of the kernel that is being described.
  Bytes read_, written_;
  DataType type_ = DataType::kFp32;
  Access access_ = Access::kPlain;
  std::vector<Known> known_;
};

}  // namespace stepcast::lowering
