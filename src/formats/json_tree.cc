#include "src/formats/json_tree.h"

#include <optional>
#include <utility>

#include "fmt/format.h"

namespace stepcast::formats {
namespace {

constexpr int kDeepest = 64;

// Counts the values of a text before a tree is built. (The library's own callback searches the
// outer array at the end of each object.)
template <typename Json>
class Counter final : public nlohmann::json_sax<Json> {
 public:
  explicit Counter(std::size_t most) : most_(most) {}
  const std::optional<JsonFault>& fault() const { return fault_; }

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(typename Json::number_integer_t) override { return Value(); }
  bool number_unsigned(typename Json::number_unsigned_t) override { return Value(); }
  bool number_float(typename Json::number_float_t, const std::string&) override { return Value(); }
  bool string(std::string&) override { return Value(); }
  bool binary(typename Json::binary_t&) override { return Value(); }
  bool key(std::string&) override { return Value(); }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  // The parser reports syntax errors later.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Value() {
    return ++values_ <= most_ || Fail(fmt::format("the file has more than {} values", most_));
  }
  bool Open() {
    if (++depth_ > kDeepest) {
      return Fail(fmt::format("brackets are nested more than {} levels deep", kDeepest));
    }
    return Value();
  }
  bool Close() {
    --depth_;
    return true;
  }
  bool Fail(std::string what) {
    fault_ = JsonFault{0, std::move(what)};
    return false;
  }

  const std::size_t most_;
  std::size_t values_ = 0;
  int depth_ = 0;
  std::optional<JsonFault> fault_;
};

}  // namespace

template <typename Json>
tl::expected<Json, JsonFault> ParseJsonTree(std::string_view text, std::size_t most_values) {
  Counter<Json> counter(most_values);
  Json::sax_parse(text, &counter);
  if (counter.fault()) return tl::unexpected(*counter.fault());
  try {
    return Json::parse(text);
  } catch (const typename Json::parse_error& error) {
    return tl::unexpected(
        JsonFault{error.byte == 0 ? 0 : error.byte - 1,
                  error.byte >= text.size() ? "the text is incomplete" : "unexpected text"});
  } catch (const typename Json::out_of_range&) {
    return tl::unexpected(JsonFault{0, "a number is too large"});
  }
}

template tl::expected<nlohmann::json, JsonFault> ParseJsonTree(std::string_view, std::size_t);
template tl::expected<nlohmann::ordered_json, JsonFault> ParseJsonTree(std::string_view,
                                                                       std::size_t);

}  // namespace stepcast::formats
