#include <cmath>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/runtime/cuda/attention.h"
#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/instructions.cuh"
#include "src/runtime/cuda/launch.h"

namespace stepcast::runtime::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlockThreads = 32 * kWarps;
constexpr float kLog2E = 1.4426950408889634f;

struct Shape {
  int sequence = 0;
  int group = 1;    // query heads of a key head
  float scale = 1;  // 1 / sqrt(head size)
};

// A tile of rows of kD numbers in shared memory. The 16-byte pieces of a row are permuted by the
// row's number, so that eight rows at one column are in different banks.
template <typename T, int kD>
struct Tile {
  T* at;

  __device__ T* Piece(int row, int piece) const {
    return at + row * kD + ((piece ^ (row & 7)) * 8);
  }

  // Loads rows [first, first + rows) of a matrix with `limit` rows; rows beyond its end are zero.
  __device__ void Load(const T* from, int first, int rows, int limit) const {
    constexpr int kPieces = kD / 8;
    for (int i = threadIdx.x; i < rows * kPieces; i += kBlockThreads) {
      const int row = i / kPieces;
      const int piece = i % kPieces;
      const bool present = first + row < limit;
      const T* source = from + (present ? static_cast<std::size_t>(first + row) * kD : 0);
      CopyAsync(Piece(row, piece), source + piece * 8, present);
    }
  }

  // The fragment `a` of rows [row, row + 16), columns [16 k, 16 k + 16).
  __device__ void LoadA(std::uint32_t (&a)[4], int row, int k) const {
    const int lane = threadIdx.x % 32;
    LoadMatrices<false>(a, Piece(row + lane % 16, 2 * k + lane / 16));
  }
  // The same for the transposed tile: rows are its columns.
  __device__ void LoadTransposedA(std::uint32_t (&a)[4], int column, int k) const {
    const int lane = threadIdx.x % 32;
    LoadMatrices<true>(a, Piece(16 * k + lane % 8 + lane / 16 * 8, column / 8 + lane / 8 % 2));
  }
  // Fragments `b` of the transposed tile: its columns [row, row + 16) and rows [16 k, 16 k + 16):
  // b[0..1] for the first eight columns, b[2..3] for the others.
  __device__ void LoadTransposedB(std::uint32_t (&b)[4], int row, int k) const {
    const int lane = threadIdx.x % 32;
    LoadMatrices<false>(b, Piece(row + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
  }
  // The same for the tile itself: rows [16 k, 16 k + 16), columns [column, column + 16).
  __device__ void LoadB(std::uint32_t (&b)[4], int column, int k) const {
    const int lane = threadIdx.x % 32;
    LoadMatrices<true>(b, Piece(16 * k + lane % 16, column / 8 + lane / 16));
  }
};

__device__ float MaximumOfRow(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ float SumOfRow(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// A block has kRows rows of queries, 32 for each warp. It walks over tiles of kKeys keys and
// values, and loads the next tile while it works on one.
template <int kD>
struct ForwardTiles {
  static constexpr int kRows = 32 * kWarps;
  static constexpr int kKeys = kD == 64 ? 64 : 32;  // as registers allow
  static constexpr int kBytes = 2 * kD * (kRows + 2 * 2 * kKeys);
};

template <typename T, int kD>
__global__ void __launch_bounds__(kBlockThreads)
    ForwardKernel(const T* queries, const T* keys, const T* values, T* output, float* log_sum_exp,
                  Shape shape) {
  using Tiles = ForwardTiles<kD>;
  constexpr int kRows = Tiles::kRows;
  constexpr int kKeys = Tiles::kKeys;
  T* memory = reinterpret_cast<T*>(DynamicShared());
  const Tile<T, kD> query_tile{memory};
  memory += kRows * kD;
  const auto key_tile = [&](int stage) { return Tile<T, kD>{memory + 2 * stage * kKeys * kD}; };
  const auto value_tile = [&](int stage) {
    return Tile<T, kD>{memory + (2 * stage + 1) * kKeys * kD};
  };

  // The last rows have the most work, so they come first.
  const int first_row = (gridDim.x - 1 - blockIdx.x) * kRows;
  const int head = blockIdx.y;
  const std::size_t head_size = static_cast<std::size_t>(shape.sequence) * kD;
  queries += head * head_size;
  output += head * head_size;
  log_sum_exp += static_cast<std::size_t>(head) * shape.sequence;
  keys += head / shape.group * head_size;
  values += head / shape.group * head_size;

  const int lane = threadIdx.x % 32;
  const int warp_row = threadIdx.x / 32 * 32;
  const int tiles =
      (min(first_row + kRows, shape.sequence) + kKeys - 1) / kKeys;  // up to the diagonal

  query_tile.Load(queries, first_row, kRows, shape.sequence);
  key_tile(0).Load(keys, 0, kKeys, shape.sequence);
  value_tile(0).Load(values, 0, kKeys, shape.sequence);
  EndCopies();

  float out[2][kD / 8][4] = {};
  float maximum[2][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};
  float sum[2][2] = {};
  const float scale = shape.scale * kLog2E;

  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % 2;
    if (tile + 1 < tiles) {
      key_tile(1 - stage).Load(keys, (tile + 1) * kKeys, kKeys, shape.sequence);
      value_tile(1 - stage).Load(values, (tile + 1) * kKeys, kKeys, shape.sequence);
    }
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();

    float score[2][kKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kD / 16; ++k) {
      std::uint32_t a[2][4];
      query_tile.LoadA(a[0], warp_row, k);
      query_tile.LoadA(a[1], warp_row + 16, k);
#pragma unroll
      for (int pair = 0; pair < kKeys / 16; ++pair) {
        std::uint32_t b[4];
        key_tile(stage).LoadTransposedB(b, 16 * pair, k);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          MultiplyAdd<T>(score[r][2 * pair], a[r], b[0], b[1]);
          MultiplyAdd<T>(score[r][2 * pair + 1], a[r], b[2], b[3]);
        }
      }
    }

    const int first_key = tile * kKeys;
    if (first_key + kKeys - 1 > first_row + warp_row) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = first_row + warp_row + 16 * r + lane / 4 + e / 2 * 8;
            const int key = first_key + 8 * n + lane % 4 * 2 + e % 2;
            if (key > row) score[r][n][e] = -INFINITY;
          }
        }
      }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float highest = maximum[r][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          highest = fmaxf(highest, fmaxf(score[r][n][2 * half], score[r][n][2 * half + 1]));
        }
        highest = MaximumOfRow(highest);
        // The first tile has a key that every row sees, so `highest` is finite from then on.
        const float correction = exp2f((maximum[r][half] - highest) * scale);
        maximum[r][half] = highest;
        sum[r][half] *= correction;
        const float shift = highest * scale;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            score[r][n][e] = exp2f(score[r][n][e] * scale - shift);
            sum[r][half] += score[r][n][e];
          }
        }
#pragma unroll
        for (int n = 0; n < kD / 8; ++n) {
          out[r][n][2 * half] *= correction;
          out[r][n][2 * half + 1] *= correction;
        }
      }
    }

#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      std::uint32_t a[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        a[r][0] = PackPair(score[r][2 * k][0], score[r][2 * k][1], T());
        a[r][1] = PackPair(score[r][2 * k][2], score[r][2 * k][3], T());
        a[r][2] = PackPair(score[r][2 * k + 1][0], score[r][2 * k + 1][1], T());
        a[r][3] = PackPair(score[r][2 * k + 1][2], score[r][2 * k + 1][3], T());
      }
#pragma unroll
      for (int pair = 0; pair < kD / 16; ++pair) {
        std::uint32_t b[4];
        value_tile(stage).LoadB(b, 16 * pair, k);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          MultiplyAdd<T>(out[r][2 * pair], a[r], b[0], b[1]);
          MultiplyAdd<T>(out[r][2 * pair + 1], a[r], b[2], b[3]);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + warp_row + 16 * r + lane / 4 + 8 * half;
      const float total = SumOfRow(sum[r][half]);
      if (row >= shape.sequence) continue;
      const float inverse = 1.0f / total;
      if (lane % 4 == 0) log_sum_exp[row] = maximum[r][half] * shape.scale + logf(total);
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        *reinterpret_cast<std::uint32_t*>(output + static_cast<std::size_t>(row) * kD + 8 * n +
                                          lane % 4 * 2) =
            PackPair(out[r][n][2 * half] * inverse, out[r][n][2 * half + 1] * inverse, T());
      }
    }
  }
}

// A block has kKeys keys and values, 16 for each warp. A warp accumulates their gradients in
// registers while it walks over the rows of queries that see them. The queries' gradients are
// accumulated in memory.
template <int kD>
struct BackwardTiles {
  static constexpr int kKeys = 16 * kWarps;
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kBytes = 2 * (kD * 2 * (kKeys + kRows) + kKeys * kRows) + 2 * 4 * kRows;
};

template <typename T, int kD>
__global__ void __launch_bounds__(kBlockThreads)
    BackwardKernel(const T* queries, const T* keys, const T* values, const T* output_gradient,
                   const float* log_sum_exp, const float* row_sums, float* query_accumulator,
                   T* key_gradient, T* value_gradient, Shape shape) {
  using Tiles = BackwardTiles<kD>;
  constexpr int kKeys = Tiles::kKeys;
  constexpr int kRows = Tiles::kRows;
  T* memory = reinterpret_cast<T*>(DynamicShared());
  const Tile<T, kD> key_tile{memory};
  const Tile<T, kD> value_tile{memory + kKeys * kD};
  const Tile<T, kD> query_tile{memory + 2 * kKeys * kD};
  const Tile<T, kD> gradient_tile{memory + (2 * kKeys + kRows) * kD};
  const Tile<T, kRows> score_tile{memory + 2 * (kKeys + kRows) * kD};  // [keys, rows]
  float* row_log = reinterpret_cast<float*>(memory + 2 * (kKeys + kRows) * kD + kKeys * kRows);
  float* row_sum = row_log + kRows;

  const int first_key = blockIdx.x * kKeys;  // the first keys have most to do
  const int key_head = blockIdx.y;
  const std::size_t head_size = static_cast<std::size_t>(shape.sequence) * kD;
  keys += key_head * head_size;
  values += key_head * head_size;
  key_gradient += key_head * head_size;
  value_gradient += key_head * head_size;

  const int lane = threadIdx.x % 32;
  const int warp_key = threadIdx.x / 32 * 16;
  const float scale = shape.scale * kLog2E;

  key_tile.Load(keys, first_key, kKeys, shape.sequence);
  value_tile.Load(values, first_key, kKeys, shape.sequence);

  float key_sum[kD / 8][4] = {};
  float value_sum[kD / 8][4] = {};
  for (int member = 0; member < shape.group; ++member) {
    const std::size_t head = static_cast<std::size_t>(key_head) * shape.group + member;
    const T* head_queries = queries + head * head_size;
    const T* head_gradient = output_gradient + head * head_size;
    float* head_accumulator = query_accumulator + head * head_size;
    const float* head_log = log_sum_exp + head * shape.sequence;
    const float* head_sums = row_sums + head * shape.sequence;

    for (int first_row = first_key / kRows * kRows; first_row < shape.sequence;
         first_row += kRows) {
      query_tile.Load(head_queries, first_row, kRows, shape.sequence);
      gradient_tile.Load(head_gradient, first_row, kRows, shape.sequence);
      EndCopies();
      for (int row = threadIdx.x; row < kRows; row += kBlockThreads) {
        const bool present = first_row + row < shape.sequence;
        row_log[row] = present ? head_log[first_row + row] * kLog2E : 0.0f;
        row_sum[row] = present ? head_sums[first_row + row] : 0.0f;
      }
      WaitForCopies<0>();
      __syncthreads();

      // Scores, transposed: keys down, rows across.
      float score[kRows / 8][4] = {};
#pragma unroll
      for (int k = 0; k < kD / 16; ++k) {
        std::uint32_t a[4];
        key_tile.LoadA(a, warp_key, k);
#pragma unroll
        for (int pair = 0; pair < kRows / 16; ++pair) {
          std::uint32_t b[4];
          query_tile.LoadTransposedB(b, 16 * pair, k);
          MultiplyAdd<T>(score[2 * pair], a, b[0], b[1]);
          MultiplyAdd<T>(score[2 * pair + 1], a, b[2], b[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = first_key + warp_key + lane / 4 + e / 2 * 8;
          const int row = 8 * n + lane % 4 * 2 + e % 2;
          score[n][e] = key > first_row + row ? 0.0f : exp2f(score[n][e] * scale - row_log[row]);
        }
      }

      // The values' gradient.
#pragma unroll
      for (int k = 0; k < kRows / 16; ++k) {
        const std::uint32_t a[4] = {PackPair(score[2 * k][0], score[2 * k][1], T()),
                                    PackPair(score[2 * k][2], score[2 * k][3], T()),
                                    PackPair(score[2 * k + 1][0], score[2 * k + 1][1], T()),
                                    PackPair(score[2 * k + 1][2], score[2 * k + 1][3], T())};
#pragma unroll
        for (int pair = 0; pair < kD / 16; ++pair) {
          std::uint32_t b[4];
          gradient_tile.LoadB(b, 16 * pair, k);
          MultiplyAdd<T>(value_sum[2 * pair], a, b[0], b[1]);
          MultiplyAdd<T>(value_sum[2 * pair + 1], a, b[2], b[3]);
        }
      }

      // The scores' gradient, in place of the scores.
      float change[kRows / 8][4] = {};
#pragma unroll
      for (int k = 0; k < kD / 16; ++k) {
        std::uint32_t a[4];
        value_tile.LoadA(a, warp_key, k);
#pragma unroll
        for (int pair = 0; pair < kRows / 16; ++pair) {
          std::uint32_t b[4];
          gradient_tile.LoadTransposedB(b, 16 * pair, k);
          MultiplyAdd<T>(change[2 * pair], a, b[0], b[1]);
          MultiplyAdd<T>(change[2 * pair + 1], a, b[2], b[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          score[n][e] *= change[n][e] - row_sum[8 * n + lane % 4 * 2 + e % 2];
        }
      }

      // The keys' gradient. The queries' gradient needs the other warps' keys.
#pragma unroll
      for (int k = 0; k < kRows / 16; ++k) {
        const std::uint32_t a[4] = {PackPair(score[2 * k][0], score[2 * k][1], T()),
                                    PackPair(score[2 * k][2], score[2 * k][3], T()),
                                    PackPair(score[2 * k + 1][0], score[2 * k + 1][1], T()),
                                    PackPair(score[2 * k + 1][2], score[2 * k + 1][3], T())};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            T* piece = score_tile.Piece(warp_key + lane / 4 + 8 * row, 2 * k + half);
            *reinterpret_cast<std::uint32_t*>(piece + lane % 4 * 2) = a[2 * half + row];
          }
        }
#pragma unroll
        for (int pair = 0; pair < kD / 16; ++pair) {
          std::uint32_t b[4];
          query_tile.LoadB(b, 16 * pair, k);
          MultiplyAdd<T>(key_sum[2 * pair], a, b[0], b[1]);
          MultiplyAdd<T>(key_sum[2 * pair + 1], a, b[2], b[3]);
        }
      }
      __syncthreads();

      // The queries' gradient: 16 rows for each warp, a quarter of their columns at a time.
      constexpr int kPart = kD / 4;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        float query_sum[kPart / 8][4] = {};
#pragma unroll
        for (int k = 0; k < kKeys / 16; ++k) {
          std::uint32_t a[4];
          score_tile.LoadTransposedA(a, warp_key, k);
#pragma unroll
          for (int pair = 0; pair < kPart / 16; ++pair) {
            std::uint32_t b[4];
            key_tile.LoadB(b, part * kPart + 16 * pair, k);
            MultiplyAdd<T>(query_sum[2 * pair], a, b[0], b[1]);
            MultiplyAdd<T>(query_sum[2 * pair + 1], a, b[2], b[3]);
          }
        }
#pragma unroll
        for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = first_row + warp_key + lane / 4 + e / 2 * 8;
            const int column = part * kPart + 8 * n + lane % 4 * 2 + e % 2;
            if (row < shape.sequence) {
              atomicAdd(head_accumulator + static_cast<std::size_t>(row) * kD + column,
                        query_sum[n][e] * shape.scale);
            }
          }
        }
      }
      __syncthreads();
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = first_key + warp_key + lane / 4 + 8 * half;
    if (key >= shape.sequence) continue;
    const std::size_t at = static_cast<std::size_t>(key) * kD + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
      *reinterpret_cast<std::uint32_t*>(key_gradient + at + 8 * n) =
          PackPair(key_sum[n][2 * half] * shape.scale, key_sum[n][2 * half + 1] * shape.scale, T());
      *reinterpret_cast<std::uint32_t*>(value_gradient + at + 8 * n) =
          PackPair(value_sum[n][2 * half], value_sum[n][2 * half + 1], T());
    }
  }
}

Shape ShapeOf(const Attention& attention) {
  return {.sequence = static_cast<int>(attention.sequence),
          .group = static_cast<int>(attention.heads / attention.key_heads),
          .scale = 1.0f / std::sqrt(static_cast<float>(attention.head_size))};
}

template <typename Kernel>
cudaError_t AllowShared(Kernel* kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// A grid has at most 65535 rows of blocks.
constexpr std::int64_t kMostHeads = 65535;

template <typename T, int kD>
cudaError_t Start(const Attention& attention, const AttentionForward& o, cudaStream_t stream) {
  using Tiles = ForwardTiles<kD>;
  if (const cudaError_t error = AllowShared(ForwardKernel<T, kD>, Tiles::kBytes);
      error != cudaSuccess) {
    return error;
  }
  const dim3 grid(static_cast<unsigned>((attention.sequence + Tiles::kRows - 1) / Tiles::kRows),
                  static_cast<unsigned>(attention.heads));
  return Launch(ForwardKernel<T, kD>, {grid, kBlockThreads, Tiles::kBytes, stream},
                static_cast<const T*>(o.queries), static_cast<const T*>(o.keys),
                static_cast<const T*>(o.values), static_cast<T*>(o.output), o.log_sum_exp,
                ShapeOf(attention));
}

template <typename T, int kD>
cudaError_t Start(const Attention& attention, const AttentionBackward& o, cudaStream_t stream) {
  using Tiles = BackwardTiles<kD>;
  if (const cudaError_t error = AllowShared(BackwardKernel<T, kD>, Tiles::kBytes);
      error != cudaSuccess) {
    return error;
  }
  const std::int64_t elements = attention.heads * attention.sequence * attention.head_size;
  if (const cudaError_t error =
          cudaMemsetAsync(o.query_accumulator, 0, elements * sizeof(float), stream);
      error != cudaSuccess) {
    return error;
  }
  const dim3 grid(static_cast<unsigned>((attention.sequence + Tiles::kKeys - 1) / Tiles::kKeys),
                  static_cast<unsigned>(attention.key_heads));
  if (const cudaError_t error =
          Launch(BackwardKernel<T, kD>, {grid, kBlockThreads, Tiles::kBytes, stream},
                 static_cast<const T*>(o.queries), static_cast<const T*>(o.keys),
                 static_cast<const T*>(o.values), static_cast<const T*>(o.output_gradient),
                 o.log_sum_exp, o.row_sums, o.query_accumulator, static_cast<T*>(o.key_gradient),
                 static_cast<T*>(o.value_gradient), ShapeOf(attention));
      error != cudaSuccess) {
    return error;
  }
  const MoveWork store{.target = o.query_gradient,
                       .source = o.query_accumulator,
                       .elements = elements,
                       .block = elements};
  return LaunchMoves({&store, 1}, {attention.type, DataType::kFp32}, stream);
}

template <typename Operands>
cudaError_t StartAny(const Attention& attention, const Operands& operands, cudaStream_t stream) {
  if (!attention.fused || attention.heads > kMostHeads) return cudaErrorInvalidValue;
  const bool half = attention.type == DataType::kFp16;
  if (attention.head_size == 64) {
    return half ? Start<__half, 64>(attention, operands, stream)
                : Start<__nv_bfloat16, 64>(attention, operands, stream);
  }
  return half ? Start<__half, 128>(attention, operands, stream)
              : Start<__nv_bfloat16, 128>(attention, operands, stream);
}

}  // namespace

cudaError_t LaunchAttention(const Attention& attention, const AttentionForward& operands,
                            cudaStream_t stream) {
  return StartAny(attention, operands, stream);
}

cudaError_t LaunchAttention(const Attention& attention, const AttentionBackward& operands,
                            cudaStream_t stream) {
  return StartAny(attention, operands, stream);
}

namespace {

struct Sizes {
  Bytes queries, keys, rows, accumulator;
};

Sizes SizesOf(const Attention& a) {
  const std::int64_t rows = a.heads * a.sequence;
  return {AlignedInArena(BytesOf(rows * a.head_size, a.type)),
          AlignedInArena(BytesOf(a.key_heads * a.sequence * a.head_size, a.type)),
          AlignedInArena(Bytes(4 * rows)), AlignedInArena(Bytes(4 * rows * a.head_size))};
}

}  // namespace

cudaError_t LaunchAttention(const Attention& attention, const std::byte* input, std::byte* output,
                            cudaStream_t stream) {
  const Sizes sizes = SizesOf(attention);
  const auto take = [](auto*& at, Bytes size) {
    auto* here = at;
    at += size.count();
    return here;
  };
  if (!attention.backward) {
    AttentionForward o;
    o.queries = take(input, sizes.queries);
    o.keys = take(input, sizes.keys);
    o.values = take(input, sizes.keys);
    o.output = take(output, sizes.queries);
    o.log_sum_exp = reinterpret_cast<float*>(take(output, sizes.rows));
    return LaunchAttention(attention, o, stream);
  }
  AttentionBackward o;
  o.queries = take(input, sizes.queries);
  o.keys = take(input, sizes.keys);
  o.values = take(input, sizes.keys);
  o.output_gradient = take(input, sizes.queries);
  // Pairs of 16-bit numbers between -1 and 1 are FP32 numbers of about that size.
  o.log_sum_exp = reinterpret_cast<const float*>(take(input, sizes.rows));
  o.row_sums = reinterpret_cast<const float*>(take(input, sizes.rows));
  o.query_gradient = take(output, sizes.queries);
  o.key_gradient = take(output, sizes.keys);
  o.value_gradient = take(output, sizes.keys);
  o.query_accumulator = reinterpret_cast<float*>(take(output, sizes.accumulator));
  return LaunchAttention(attention, o, stream);
}

}  // namespace stepcast::runtime::cuda
