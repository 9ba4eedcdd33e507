#include "src/planner/sweep_grid.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <unordered_set>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/planner/sweep_range.h"

namespace stepcast::planner {
namespace {

constexpr std::string_view kAll = "all";

// Plans that differ in it alone share a program's instructions.
constexpr std::string_view kNodesKey = "cluster.nodes";

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

tl::unexpected<Diagnostics> Fault(std::string code, std::string_view option, std::string message,
                                  std::string hint) {
  return tl::unexpected(Diagnostics{{std::move(code),
                                     {fmt::format("--vary {}", option), 0, 0},
                                     std::move(message),
                                     std::move(hint)}});
}

tl::unexpected<Diagnostics> Fault(std::string_view option, std::string message, std::string hint) {
  return Fault("sweep.vary", option, std::move(message), std::move(hint));
}

// The number of combinations, as text, for it may be astronomical.
std::string Combinations(const std::vector<SweepAxis>& axes) {
  constexpr std::int64_t kMostCounted = 1'000'000'000'000'000;
  std::int64_t rows = 1;
  for (const SweepAxis& axis : axes) {
    const auto values = static_cast<std::int64_t>(axis.values.size());
    if (values > kMostCounted / rows) return fmt::format("more than {}", kMostCounted);
    rows *= values;
  }
  return fmt::format("{}", rows);
}

}  // namespace

Result<SweepAxis> ParseSweepAxis(std::string_view text) {
  const char* const kForm =
      "write --vary KEY=V1,V2,..., for example "
      "--vary 'data_parallel.bucket_size=1 MiB,25 MiB'";
  const std::size_t equals = text.find('=');
  const std::string_view key = Trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || key.empty()) {
    return Fault(text, fmt::format("a key and its values are due: {}", Quoted(text)), kForm);
  }
  const std::string_view list = Trimmed(text.substr(equals + 1));
  if (list.empty()) {
    return Fault(text, fmt::format("there are no values for '{}'", key), kForm);
  }
  SweepAxis axis{std::string(key), {}};
  if (list == kAll) {
    axis.all = true;
    return axis;
  }
  for (std::string_view part : SplitAtCommas(list)) {
    const std::string_view value = Trimmed(part);
    if (value.empty()) {
      return Fault(text, fmt::format("a value of '{}' is empty: {}", key, Quoted(list)), kForm);
    }
    if (value == kAll) {
      return Fault(text,
                   fmt::format("'all' stands for every value of '{}' and stands alone: {}", key,
                               Quoted(list)),
                   "leave the other values out; if a value is called all, put it in quotes");
    }
    auto range = ReadRange(value);
    if (!range) {
      axis.values.emplace_back(value);
      continue;
    }
    if (!*range) {
      return Fault(std::move(range->error().code), text, std::move(range->error().message),
                   std::move(range->error().hint));
    }
    for (std::string& member : **range) axis.values.push_back(std::move(member));
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string& value : axis.values) {
    if (!seen.insert(value).second) {
      return Fault(text, fmt::format("'{}' has a value twice: {}", key, Quoted(value)),
                   "leave one of them out");
    }
  }
  return axis;
}

Result<SweepGrid> SweepGrid::Of(std::vector<SweepAxis> axes) {
  STEPCAST_CHECK(std::none_of(axes.begin(), axes.end(),
                              [](const SweepAxis& axis) { return axis.values.empty(); }),
                 "every axis has values");
  if (axes.empty()) {
    return tl::unexpected(Diagnostics{{"sweep.vary",
                                       {"--vary", 0, 0},
                                       "nothing varies",
                                       "add at least one --vary KEY=V1,V2,..."}});
  }
  SweepGrid grid;
  for (const SweepAxis& axis : axes) {
    const auto same = std::count_if(axes.begin(), axes.end(),
                                    [&](const SweepAxis& other) { return other.key == axis.key; });
    if (same > 1) {
      return Fault(axis.key, fmt::format("a key varies twice: '{}'", axis.key),
                   "put all of its values into one --vary");
    }
    const auto values = static_cast<std::int64_t>(axis.values.size());
    if (values > kMostRows / grid.rows_) {
      std::string product;
      for (const SweepAxis& factor : axes) {
        product += fmt::format("{}{}", product.empty() ? "" : " x ", factor.values.size());
      }
      const SweepAxis& longest = *std::max_element(
          axes.begin(), axes.end(),
          [](const SweepAxis& a, const SweepAxis& b) { return a.values.size() < b.values.size(); });
      return Fault("sweep.too-many", axis.key,
                   fmt::format("{} combinations are more than the {} that one sweep may have: {}",
                               Combinations(axes), kMostRows, product),
                   fmt::format("'{}' has the most values, {}: give it fewer (x2 instead of +1), "
                               "or vary fewer keys at a time and set the others with --set",
                               longest.key, longest.values.size()));
    }
    grid.rows_ *= values;
  }
  grid.axes_ = std::move(axes);
  grid.strides_.resize(grid.axes_.size());
  std::int64_t stride = 1;
  for (std::size_t i = grid.axes_.size(); i-- > 0;) {
    grid.strides_[i] = stride;
    stride *= static_cast<std::int64_t>(grid.axes_[i].values.size());
  }
  grid.places_.resize(grid.axes_.size());
  std::iota(grid.places_.begin(), grid.places_.end(), std::size_t{0});
  std::stable_partition(grid.places_.begin(), grid.places_.end(),
                        [&](std::size_t axis) { return grid.axes_[axis].key != kNodesKey; });
  return grid;
}

const std::string& SweepGrid::Value(std::int64_t row, std::size_t axis) const {
  STEPCAST_CHECK(row >= 0 && row < rows_, "the row is one of the grid");
  const std::vector<std::string>& values = axes_[axis].values;
  return values[static_cast<std::size_t>(row / strides_[axis]) % values.size()];
}

std::int64_t SweepGrid::RowAt(std::int64_t place) const {
  STEPCAST_CHECK(place >= 0 && place < rows_, "there are as many places as rows");
  std::int64_t row = 0;
  for (auto axis = places_.rbegin(); axis != places_.rend(); ++axis) {
    const auto values = static_cast<std::int64_t>(axes_[*axis].values.size());
    row += place % values * strides_[*axis];
    place /= values;
  }
  return row;
}

std::vector<std::pair<std::string, std::string>> SweepGrid::Row(std::int64_t row) const {
  std::vector<std::pair<std::string, std::string>> settings;
  settings.reserve(axes_.size());
  for (std::size_t i = 0; i < axes_.size(); ++i) settings.emplace_back(axes_[i].key, Value(row, i));
  return settings;
}

}  // namespace stepcast::planner
