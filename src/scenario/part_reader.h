#pragma once

#include <cstdint>
#include <string_view>

#include "src/model/architecture.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// Reads a mapping of widths and booleans that describes a part of a model.
class PartReader {
 public:
  PartReader(const Node& node, Diagnostics& diagnostics) : reader_(node, diagnostics) {}

  std::int64_t Width(std::string_view key, std::int64_t absent) {
    return reader_.ReadInteger(key, Need::kOptional, {1, model::kMostWidth}).value_or(absent);
  }
  std::int64_t Width(std::string_view key) {
    return reader_.ReadInteger(key, Need::kRequired, {1, model::kMostWidth}).value_or(1);
  }
  std::int64_t WidthOrNone(std::string_view key) {
    return reader_.ReadInteger(key, Need::kOptional, {0, model::kMostWidth}).value_or(0);
  }
  bool Boolean(std::string_view key, bool absent) {
    return reader_.ReadBoolean(key, Need::kOptional).value_or(absent);
  }
  MappingReader& reader() { return reader_; }

 private:
  MappingReader reader_;
};

}  // namespace stepcast::scenario
