#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "src/base/bytes.h"

namespace stepcast {

// kTf32: fp32 in memory, multiplied on tensor cores that read 19 of its bits. Matrix products alone
// are of that type; nothing is stored, moved or reduced as it.
enum class DataType : std::uint8_t { kFp32, kBf16, kFp16, kFp8, kTf32 };
inline constexpr DataType kDataTypes[] = {DataType::kFp32, DataType::kBf16, DataType::kFp16,
                                          DataType::kFp8, DataType::kTf32};
inline constexpr std::size_t kDataTypeCount = std::size(kDataTypes);

constexpr std::int64_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFp32:
    case DataType::kTf32:
      return 4;
    case DataType::kBf16:
    case DataType::kFp16:
      return 2;
    case DataType::kFp8:
      return 1;
  }
  return 0;
}

constexpr Bytes BytesOf(std::int64_t elements, DataType type) {
  return Bytes(elements * SizeOf(type));
}

// The names of the scenario file: fp32, bf16, fp16, fp8, tf32.
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
