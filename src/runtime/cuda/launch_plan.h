#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/program/program.h"
#include "src/runtime/device.h"

// The launches of each operation of a program on a GPU, decided once, before anything runs.
//
// What effects say is done on the program's buffers. The rest of a kernel's work has operands that
// the program does not name; it is done on stand-ins: an arena of random numbers for each data type
// that is only read, and an arena for each stream that is only written. Both are walked through
// from operation to operation, so that operands come from memory and not from the cache, as far as
// the arenas are larger than it.
namespace stepcast::runtime::cuda {

// A distinct matrix product. The result is [m, n], `batch` times.
struct Product {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  ProductLayout layout = ProductLayout::kForward;
  DataType input = DataType::kBf16;
  DataType output = DataType::kBf16;
  bool add = false;                   // to what is there
  std::int64_t output_alignment = 0;  // bytes, a power of two up to 256
  bool shared_first = false;          // all of the batch multiply the same first operand
  friend bool operator==(const Product&, const Product&) = default;
};

// A distinct attention core.
struct Attention {
  bool backward = false;
  DataType type = DataType::kBf16;
  std::int64_t head_size = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;  // times sequences: rows of the batch
  std::int64_t key_heads = 0;
  // Whether the fused kernel runs (attention.h), which needs 16-bit operands and a head size of 64
  // or 128, and masks nothing but what comes later. Else two (backward: five) products of the same
  // work stand in for it.
  bool fused = false;
  friend bool operator==(const Attention&, const Attention&) = default;
};

// Effects that are one launch (effect_batches.h): `count` of the program's from `first` on.
struct EffectBatch {
  program::Index first = 0, count = 0;
  friend bool operator==(const EffectBatch&, const EffectBatch&) = default;
};

// One instruction's work. Indices are program::kNone and sizes zero where there is none.
struct Work {
  program::Index product = program::kNone;
  int times = 1;                                   // that the product is made
  program::Index product_effect = program::kNone;  // the gradient that the product writes
  program::Index attention = program::kNone;       // a fused one
  // Traffic of a memory-bound kernel besides its effects.
  Bytes read, written;
  // Where its stand-ins begin: two operands of products, in the arena of their type; everything
  // else in that of `LaunchPlan::traffic_type`.
  Bytes first_operand, second_operand;
  Bytes output;  // in the stream's arena
  // A collective whose effects are stored in another type than it communicates: room in the
  // stream's arena for what is sent and received, effect by effect, each as large as
  // program::PartsOf says, at multiples of 256 bytes.
  Bytes staging;
  // Its effects, without the one that a product writes and parts of a collective, are
  // LaunchPlan::batches[first_batch, last_batch); a collective communicates in front of
  // `batches_behind`, other operations do them all at once.
  program::Index first_batch = 0, batches_behind = 0, last_batch = 0;
};

struct LaunchPlan {
  std::vector<Product> products;
  std::vector<Attention> attentions;
  std::vector<Work> prologue, step;  // by instruction
  std::vector<EffectBatch> batches;  // in the order of instructions
  DataType traffic_type = DataType::kFp32;
  std::array<Bytes, kDataTypeCount> inputs{};  // sizes of the arenas that are read, by data type
  std::vector<Bytes> outputs;                  // of those that are written, by stream
  std::vector<bool> multiplies;                // by stream: products run on it
  Bytes host;                                  // the largest copy from or to the host
};

// Arenas are as large as all that a step takes from them, up to this, unless one operand is larger.
inline constexpr Bytes kArenaLimit = MiB(256);
// Copies from and to the host go in pieces of this size at most.
inline constexpr Bytes kHostPiece = MiB(64);

LaunchPlan MakeLaunchPlan(const program::Program& program, GradientRule gradients);

// Sizes in arenas are rounded up to this.
Bytes AlignedInArena(Bytes size);

// Bytes of operands that lie one behind the other at multiples of 256 bytes.
Bytes InputOf(const Attention& attention);
Bytes OutputOf(const Attention& attention);

// The operands' sizes.
Bytes FirstOperand(const Product& product);
Bytes SecondOperand(const Product& product);
Bytes Output(const Product& product);

}  // namespace stepcast::runtime::cuda
