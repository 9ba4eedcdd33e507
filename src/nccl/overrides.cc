#include "src/nccl/overrides.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace stepcast::nccl {
namespace {

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The non-empty parts of `text` between separators, as views into it, so that their columns are
// known.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <typename Enumerator>
std::optional<Enumerator> FromName(std::span<const Enumerator> values, std::string_view name) {
  const auto it = std::find_if(values.begin(), values.end(),
                               [&](Enumerator value) { return SameName(Name(value), name); });
  return it == values.end() ? std::nullopt : std::optional(*it);
}

template <typename Enumerator>
std::string HintFor(std::span<const Enumerator> values) {
  std::string names;
  for (Enumerator value : values)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(value));
  return "write one of " + names;
}

template <typename Enumerator, std::size_t n>
class Parser {
 public:
  Parser(std::string_view text, const Location& location,
         const std::array<Enumerator, n>& enumerators, std::string_view unknown_code,
         std::string_view unknown)
      : text_(text),
        location_(location),
        enumerators_(enumerators),
        unknown_code_(unknown_code),
        unknown_(unknown) {}

  Result<AllowedByFunction<Enumerator, n>> Parse() {
    bool first = true;
    for (std::string_view list : Split(text_, ';')) {
      ParseList(list, first);
      first = false;
    }
    if (!mistakes_.empty()) return tl::unexpected(std::move(mistakes_));
    return allowed_;
  }

 private:
  void ParseList(std::string_view list, bool first) {
    std::vector<Function> functions(kFunctions.begin(), kFunctions.end());
    if (const std::size_t colon = list.find(':'); colon != std::string_view::npos) {
      const std::string_view name = list.substr(0, colon);
      const std::optional<Function> function = FromName<Function>(std::span(kFunctions), name);
      if (!function) {
        Report("nccl.unknown-function", name,
               "no such function: ", HintFor<Function>(std::span(kFunctions)));
      }
      functions.clear();
      if (function) functions.push_back(*function);
      list.remove_prefix(colon + 1);
    } else if (!first) {
      Report("nccl.list-without-function", list,
             "every list after the first list must begin with a function, such as allreduce: ",
             "write allreduce:" + std::string(list));
    }
    const bool all_but = list.starts_with('^');
    if (all_but) list.remove_prefix(1);
    std::bitset<n> values;
    for (std::string_view name : Split(list, ',')) {
      const std::optional<Enumerator> value = FromName<Enumerator>(std::span(enumerators_), name);
      if (value) {
        values.set(static_cast<std::size_t>(*value));
      } else {
        Report(unknown_code_, name, unknown_, HintFor<Enumerator>(std::span(enumerators_)));
      }
    }
    for (Function function : functions) allowed_.Set(function, all_but ? ~values : values);
  }

  // `part` is a part of text_.
  void Report(std::string_view code, std::string_view part, std::string_view what,
              std::string hint) {
    Location location = location_;
    if (location.column > 0) location.column += static_cast<int>(part.data() - text_.data());
    mistakes_.push_back({.code = std::string(code),
                         .location = std::move(location),
                         .message = std::string(what) + Quoted(part),
                         .hint = std::move(hint)});
  }

  std::string_view text_;
  const Location& location_;
  const std::array<Enumerator, n>& enumerators_;
  std::string_view unknown_code_;
  std::string_view unknown_;
  AllowedByFunction<Enumerator, n> allowed_;
  Diagnostics mistakes_;
};

}  // namespace

Result<AllowedAlgorithms> ParseAlgorithms(std::string_view text, const Location& location) {
  return Parser(text, location, kAlgorithms, "nccl.unknown-algorithm", "no such algorithm: ")
      .Parse();
}

Result<AllowedProtocols> ParseProtocols(std::string_view text, const Location& location) {
  return Parser(text, location, kProtocols, "nccl.unknown-protocol", "no such protocol: ").Parse();
}

}  // namespace stepcast::nccl
