#include "src/formats/json_tree.h"

#include "fmt/format.h"

namespace stepcast::formats {
namespace {

constexpr int kDeepest = 64;

// Thrown through the parser to stop it.
struct TooMuch {
  std::string what;
};

}  // namespace

template <typename Json>
tl::expected<Json, JsonFault> ParseJsonTree(std::string_view text, std::size_t most_values) {
  std::size_t values = 0;
  const auto count = [&](int depth, typename Json::parse_event_t, const Json&) {
    if (depth > kDeepest) {
      throw TooMuch{fmt::format("brackets are nested more than {} levels deep", kDeepest)};
    }
    if (++values > most_values)
      throw TooMuch{fmt::format("it has more than {} values", most_values)};
    return true;
  };
  try {
    return Json::parse(text, count);
  } catch (const TooMuch& stop) {
    return tl::unexpected(JsonFault{0, stop.what});
  } catch (const typename Json::parse_error& error) {
    return tl::unexpected(JsonFault{error.byte == 0 ? 0 : error.byte - 1, error.byte >= text.size()
                                                                              ? "it is cut off"
                                                                              : "unexpected text"});
  } catch (const typename Json::out_of_range&) {
    return tl::unexpected(JsonFault{0, "a number is too large"});
  }
}

template tl::expected<nlohmann::json, JsonFault> ParseJsonTree(std::string_view, std::size_t);
template tl::expected<nlohmann::ordered_json, JsonFault> ParseJsonTree(std::string_view,
                                                                       std::size_t);

}  // namespace stepcast::formats
