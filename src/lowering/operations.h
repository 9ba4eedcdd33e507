#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/layouts.h"

// Operations of data parallelism on parameters and gradients: copy, cast, accumulate, scale,
// gather, reduce. Each call writes one operation. The operation's buffer uses, effects on values,
// and bytes moved or sent are derived from the source and target ranges.
namespace stepcast::lowering {

class Operations {
 public:
  explicit Operations(ProgramBuilder& builder) : builder_(builder) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  ProgramBuilder& builder() { return builder_; }

  // Adds a buffer of `elements` elements. The first `exact` elements belong to the model; the rest
  // is padding.
  Range AddRange(const program::NameParts& name, std::int64_t elements, DataType type,
                 program::Category category, std::int64_t exact);
  Range AddRange(const program::NameParts& name, std::int64_t elements, DataType type,
                 program::Category category) {
    return AddRange(name, elements, type, category, elements);
  }
  // Adds a buffer for one rank's part of a tensor. The tensor has `exact` elements and is divided
  // among `ranks` ranks. The part has `elements` elements, including padding.
  Range AddShard(const program::NameParts& name, std::int64_t elements, DataType type,
                 program::Category category, std::int64_t exact, std::int64_t ranks);
  // Allocates the buffer of `range`. The range must cover the complete buffer.
  void Allocate(StreamId owner, const Range& range) { builder_.Allocate(owner, range.buffer()); }
  void Release(const Range& range) { builder_.Release(range.buffer()); }

  // The following functions write kernels; `name` must be a literal. Copy computes target = scale x
  // source and converts the result to the target's type.
  void Copy(StreamId stream, const char* name, const Range& target, const Range& source,
            double scale = 1) {
    Reads(source);
    Writes(target);
    Moves(target, source, scale);
    Run(stream, name);
  }
  // Computes target += source. If `add` is false, computes target = source at the same cost.
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
  // Computes range = scale x range.
  void Scale(StreamId stream, const char* name, const Range& range, double scale) {
    Updates(range);
    Moves(range, range, scale);
    Run(stream, name);
  }

  // The following functions write a kernel in steps: first declare the reads, writes and effects,
  // then call Run.
  void Reads(const Range& range) {
    Use(range, false);
    read_ += range.size();
  }
  void Writes(const Range& range) {
    Use(range, true);
    written_ += range.size();
    type_ = range.type();
  }
  // Declares that the kernel reads and writes the range.
  void Updates(const Range& range) {
    Writes(range);
    read_ += range.size();
  }
  // Declares that the kernel moves the contents of `source` to `target`. If the lengths of the
  // ranges differ, the rest of the longer range is padding.
  void Moves(const Range& target, const Range& source, double scale = 1) {
    if (!builder_.describes_data_flow()) return;
    builder_.With(Scaled(scale, Move(target.place, source.place, Shorter(target, source))));
  }
  // Replaces the kernel's numbers of bytes read and written. Use this function if a kernel's memory
  // traffic differs from the sizes of its ranges.
  void Traffic(Bytes read, Bytes written, Access access = Access::kPlain) {
    read_ = read;
    written_ = written;
    access_ = access;
  }
  void Run(StreamId stream, const char* name);

  // Write collectives in the data type of their ranges. If one range is part of the other, both are
  // declared as one use.
  void AllReduce(StreamId stream, Index communicator, const Range& range, bool average = false);
  void ReduceScatter(StreamId stream, Index communicator, const Range& part, const Range& whole,
                     bool average = false);
  void AllGather(StreamId stream, Index communicator, const Range& whole, const Range& part);

 private:
  // A kernel in the program's table. Identical kernels share one entry.
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
  // Properties of the kernel that is being written:
  Bytes read_, written_;
  DataType type_ = DataType::kFp32;
  Access access_ = Access::kPlain;
  std::vector<Known> known_;
};

}  // namespace stepcast::lowering
