#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// Python's pickles (protocols 2 to 5) of plain data: None, booleans, integers, floats, text, bytes,
// lists, tuples, sets and dictionaries, as pickletools documents their opcodes. A pickle is a
// program that may import and call anything: this reader executes nothing, and refuses a pickle
// that asks for more than plain data at the opcode that does.
//
// Mistakes: pickle.not-data (it names a class or a function), pickle.cut-off, pickle.malformed (an
// unknown opcode, an empty stack), pickle.too-large (more values than any that are read here).
namespace stepcast::formats {

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBoolean,
    kInteger,
    kReal,
    kText,  // bytes as well
    kSequence,
    kMapping,
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // of a boolean 0 or 1; of an integer beyond 64 bits the nearest
  double real = 0;
  std::string text{};
  std::vector<const PickleValue*> items{};  // of a mapping key, value, key, value

  // The value of a mapping's key; null: it has none, or this is no mapping. The first kMostKeys keys
  // alone are looked at: a mapping of millions may stand in many places.
  static constexpr std::size_t kMostKeys = 64;
  const PickleValue* Find(std::string_view key) const;
  // An integer; `otherwise` where this is none.
  std::int64_t IntegerOr(std::int64_t otherwise) const {
    return kind == Kind::kInteger || kind == Kind::kBoolean ? integer : otherwise;
  }
};

// Owns the values of a pickle, which may refer to each other in circles.
class Pickle {
 public:
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

Result<Pickle> ParsePickle(std::string_view bytes, const std::string& file);

}  // namespace stepcast::formats
