#include "src/formats/json_tree.h"

#include "fmt/format.h"

namespace stepcast::formats {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 64;
constexpr std::size_t kMostValues = 1'000'000;

// Thrown through the parser to stop it.
struct TooMuch {
  std::string what;
};

}  // namespace

tl::expected<Json, JsonFault> ParseJsonTree(std::string_view text) {
  std::size_t values = 0;
  const auto count = [&values](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) {
      throw TooMuch{fmt::format("brackets are nested more than {} levels deep", kDeepest)};
    }
    if (++values > kMostValues)
      throw TooMuch{fmt::format("it has more than {} values", kMostValues)};
    return true;
  };
  try {
    return Json::parse(text, count);
  } catch (const TooMuch& stop) {
    return tl::unexpected(JsonFault{0, stop.what});
  } catch (const Json::parse_error& error) {
    return tl::unexpected(JsonFault{error.byte == 0 ? 0 : error.byte - 1, error.byte >= text.size()
                                                                              ? "it is cut off"
                                                                              : "unexpected text"});
  } catch (const Json::out_of_range&) {
    return tl::unexpected(JsonFault{0, "a number is too large"});
  }
}

}  // namespace stepcast::formats
