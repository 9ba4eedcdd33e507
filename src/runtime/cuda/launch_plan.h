#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/program/data_flow.h"
#include "src/program/program.h"
#include "src/runtime/device.h"

// The launches of each operation of a program on a GPU, planned before the program runs.
//
// Effects work on the program's buffers. All other work uses synthetic operands: it reads from an
// arena of random numbers (one per data type) and writes to another arena (one per stream).
// Operations use successive parts of the arenas, so that operands come from memory and not from the
// cache if an arena is larger than the cache.
namespace stepcast::runtime::cuda {

// A batched GEMM: `batch` results with the shape [m, n]. Equal GEMMs of a program share one entry.
struct Product {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  ProductLayout layout = ProductLayout::kForward;
  DataType input = DataType::kBf16;
  DataType output = DataType::kBf16;
  bool add = false;                   // the result is added to memory
  std::int64_t output_alignment = 0;  // bytes, a power of two up to 256
  bool shared_first = false;          // all GEMMs of the batch have the same first operand
  friend bool operator==(const Product&, const Product&) = default;
};

// An attention core. Equal attention cores of a program share one entry.
struct Attention {
  bool backward = false;
  DataType type = DataType::kBf16;
  std::int64_t head_size = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;  // number of heads times number of sequences
  std::int64_t key_heads = 0;
  // Whether the fused kernel runs (attention.h). The kernel requires 16-bit operands, a head size
  // of 64 or 128, and a causal mask without a window. Otherwise, two GEMMs (in backward: five) with
  // the same amount of work replace the fused kernel.
  bool fused = false;
  friend bool operator==(const Attention&, const Attention&) = default;
};

// The effects of one launch: `count` effects of the program, starting with effect `first`.
struct EffectBatch {
  program::Index first = 0, count = 0;
  friend bool operator==(const EffectBatch&, const EffectBatch&) = default;
};

// The work of one instruction. Absent indices are program::kNone, and absent sizes are zero.
struct Work {
  program::Index product = program::kNone;
  int times = 1;                                   // number of times that the GEMM runs
  program::Index product_effect = program::kNone;  // the gradient that the GEMM writes
  program::Index attention = program::kNone;       // index of a fused attention core
  // The bytes that a memory-bound kernel reads and writes in addition to its effects.
  Bytes read, written;
  // The offsets of the synthetic operands. A GEMM has two operands in the arena of their type. All
  // other work uses the arena of type `LaunchPlan::traffic_type`.
  Bytes first_operand, second_operand;
  Bytes output;  // offset in the stream's arena
  // The offset of a collective's staging space in the stream's arena, only if effects are stored in
  // another type than the collective's. The staging space contains the sent and received data,
  // effect by effect. Each part has the size of program::PartsOf and starts at a multiple of 256
  // bytes.
  Bytes staging;
  // The effects of the operation are LaunchPlan::batches[first_batch, last_batch). The batches
  // include neither the effect that a GEMM writes nor the parts of a collective. A collective
  // communicates before the batches from `batches_behind` on; other operations execute all batches
  // at once.
  program::Index first_batch = 0, batches_behind = 0, last_batch = 0;
};

struct LaunchPlan {
  std::vector<Product> products;
  std::vector<Attention> attentions;
  std::vector<Work> prologue, step;  // [instruction]
  std::vector<EffectBatch> batches;  // in the order of instructions
  DataType traffic_type = DataType::kFp32;
  std::array<Bytes, kDataTypeCount> inputs{};  // sizes of the arenas that kernels read, by data
                                               // type
  std::vector<Bytes> outputs;                  // sizes of the arenas that kernels write, by stream
  std::vector<bool> multiplies;                // [stream]: whether GEMMs run on it
  Bytes host;                                  // the largest copy from or to the host
};

// The limit of an arena's size, unless one operand is larger. An arena has space for all operands
// of a step, up to this limit.
inline constexpr Bytes kArenaLimit = MiB(256);
// Copies from or to the host are split into pieces of at most this size.
inline constexpr Bytes kHostPiece = MiB(64);

LaunchPlan MakeLaunchPlan(const program::Program& program, GradientRule gradients);

// Rounds a size up to the alignment of operands in arenas.
Bytes AlignedInArena(Bytes size);

// InputOf returns the total size of all operands that are read, OutputOf of all operands that are
// written. Each operand starts at a multiple of 256 bytes.
Bytes InputOf(const Attention& attention);
Bytes OutputOf(const Attention& attention);

// These functions return the size in bytes of one operand.
Bytes FirstOperand(const Product& product);
Bytes SecondOperand(const Product& product);
Bytes Output(const Product& product);

// Groups the effects of an operation into launches: one kernel executes several effects at once
// (effects.h).

// Returns the number of leading effects that fit into one launch, at least 1 if there is an effect.
// Effects of one launch have one kind and the same types, and no effect uses a range that another
// effect writes. Sums of squares may write the same number, because they are added in order. Parts
// of a collective (kCollective) are never grouped. Buffers must not overlap.
std::size_t FirstBatch(std::span<const program::Effect> effects, bool adamw);

}  // namespace stepcast::runtime::cuda
