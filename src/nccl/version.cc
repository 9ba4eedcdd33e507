#include "src/nccl/version.h"

#include <charconv>
#include <cstddef>

namespace stepcast::nccl {
namespace {

constexpr int kMinors[] = {21, 23, 27, 28, 30};
constexpr std::string_view kNames[] = {"2.21", "2.23", "2.27", "2.28", "2.30"};

// Removes a decimal number from the start of `text` and returns it.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool TakeDot(std::string_view& text) {
  if (!text.starts_with('.')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string_view Name(Version version) { return kNames[static_cast<std::size_t>(version)]; }

std::optional<Version> VersionFromName(std::string_view text) {
  const std::optional<int> major = TakeNumber(text);
  if (major != 2 || !TakeDot(text)) return std::nullopt;
  const std::optional<int> minor = TakeNumber(text);
  if (!minor) return std::nullopt;
  if (!text.empty() && (!TakeDot(text) || !TakeNumber(text) || !text.empty())) return std::nullopt;
  std::optional<Version> newest;
  for (Version version : kVersions) {
    if (kMinors[static_cast<std::size_t>(version)] <= *minor) newest = version;
  }
  return newest;
}

}  // namespace stepcast::nccl
