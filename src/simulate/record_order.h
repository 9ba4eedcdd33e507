#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

// Keeps a timeline's records in order.
namespace stepcast::simulate {

// Appends a record. The ends of successive records must not decrease. Records with equal ends are
// put in issue order.
template <typename Record>
void AppendInOrder(const Record& record, std::vector<Record>& to) {
  to.push_back(record);
  for (std::size_t i = to.size() - 1; i > 0; --i) {
    const Record& before = to[i - 1];
    if (before.end != record.end ||
        std::tie(before.step, before.instruction) < std::tie(record.step, record.instruction)) {
      break;
    }
    std::swap(to[i - 1], to[i]);
  }
}

// Merges two ordered lists into one ordered list.
template <typename Record>
void Merge(const std::vector<Record>& records, std::vector<Record>& into) {
  if (records.empty()) return;
  const auto middle = static_cast<std::ptrdiff_t>(into.size());
  into.insert(into.end(), records.begin(), records.end());
  std::inplace_merge(
      into.begin(), into.begin() + middle, into.end(), [](const Record& a, const Record& b) {
        return std::tie(a.end, a.step, a.instruction) < std::tie(b.end, b.step, b.instruction);
      });
}

}  // namespace stepcast::simulate
