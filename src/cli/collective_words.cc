#include "src/cli/collective_words.h"

#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"

namespace stepcast::cli {

std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics) {
  if (const auto kind = CollectiveKindFromName(word)) return kind;
  std::vector<std::string_view> known;
  for (const CollectiveKind kind : kCollectiveKinds) known.push_back(Name(kind));
  const std::string_view near = NearestWord(word, known);
  diagnostics.push_back({"command.unknown-collective",
                         {option + " " + word, 0, 0},
                         fmt::format("unknown collective: {}", Quoted(word)),
                         near.empty() ? fmt::format("there are: {}", fmt::join(known, ", "))
                                      : fmt::format("did you mean '{}'?", near)});
  return std::nullopt;
}

std::optional<Bytes> ReadSize(const std::string& option, const std::string& text,
                              Diagnostics& diagnostics) {
  const Location location{option + " " + text, 0, 0};
  const auto size = ParseBytes(text);
  if (!size) {
    diagnostics.push_back(
        {"command.bad-quantity", location, size.error().message, size.error().hint});
    return std::nullopt;
  }
  if (*size > Bytes(0)) return *size;
  diagnostics.push_back({"command.bad-quantity", location,
                         fmt::format("a size must be above zero: {}", Quoted(text)),
                         "write for example '1 KiB'"});
  return std::nullopt;
}

}  // namespace stepcast::cli
