#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/bytes.h"

namespace stepcast {

enum class DataType : std::uint8_t { kFp32, kBf16, kFp16, kFp8 };

constexpr std::int64_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFp32:
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

// The names of the scenario file: fp32, bf16, fp16, fp8.
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
  }
  return "";
}

constexpr std::optional<DataType> DataTypeFromName(std::string_view name) {
  for (DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16, DataType::kFp8}) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace stepcast
