#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "src/base/bytes.h"

namespace stepcast {

// The number formats. kTf32 is stored as fp32, but tensor cores read only 19 of its bits. kMxfp8
// has 8 bits and one scale for 32 elements; kNvfp4 has 4 bits and one scale for 16 elements.
// Blackwell's tensor cores read kMxfp8 and kNvfp4 (OCP Microscaling Formats 1.0; Transformer
// Engine, docs/features/low_precision_training). kTf32, kMxfp8 and kNvfp4 are used only in matrix
// multiplications, never for stored, moved or reduced buffers.
enum class DataType : std::uint8_t { kFp32, kBf16, kFp16, kFp8, kTf32, kMxfp8, kNvfp4 };
inline constexpr DataType kDataTypes[] = {DataType::kFp32, DataType::kBf16, DataType::kFp16,
                                          DataType::kFp8,  DataType::kTf32, DataType::kMxfp8,
                                          DataType::kNvfp4};
inline constexpr std::size_t kDataTypeCount = std::size(kDataTypes);

// Returns whether kernels cast 16-bit numbers to this type, only for a matrix multiplication.
constexpr bool IsQuantized(DataType type) {
  return type == DataType::kFp8 || type == DataType::kMxfp8 || type == DataType::kNvfp4;
}

// Returns the bytes of one element, without scales. The result for kNvfp4 is 1, although two
// elements share a byte.
constexpr std::int64_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFp32:
    case DataType::kTf32:
      return 4;
    case DataType::kBf16:
    case DataType::kFp16:
      return 2;
    case DataType::kFp8:
    case DataType::kMxfp8:
    case DataType::kNvfp4:
      return 1;
  }
  return 0;
}

// Returns the bytes of `elements` elements, including one byte for the scale of each block.
constexpr Bytes BytesOf(std::int64_t elements, DataType type) {
  if (type == DataType::kMxfp8) return Bytes(elements + (elements + 31) / 32);
  if (type == DataType::kNvfp4) return Bytes((elements + 1) / 2 + (elements + 15) / 16);
  return Bytes(elements * SizeOf(type));
}

// Returns the type's name in scenario files: fp32, bf16, fp16, fp8, tf32, mxfp8 or nvfp4.
constexpr std::string_view Name(DataType type) {
  switch (type) {
    case DataType::kFp32:
      return "fp32";
    case DataType::kBf16:
      return "bf16";
    case DataType::kFp16:
      return "fp16";
    case DataType::kFp8:
      return "fp8";
    case DataType::kTf32:
      return "tf32";
    case DataType::kMxfp8:
      return "mxfp8";
    case DataType::kNvfp4:
      return "nvfp4";
  }
  return "";
}

constexpr std::optional<DataType> DataTypeFromName(std::string_view name) {
  for (DataType type : kDataTypes) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace stepcast
