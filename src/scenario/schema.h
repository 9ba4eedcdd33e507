#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The keys and values that a reader accepts. A reader (document.h) with a Schema records in it
// every key for which it asks, so the schema always matches the reader. Editors use schemas for
// completion (report/dumps.h).
namespace stepcast::scenario {

enum class Need : std::uint8_t { kRequired, kOptional };

// A range with inclusive limits. The upper limits keep sums of such values within 64 bits.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 1'000'000'000'000'000;
  std::int64_t example = 0;  // a usual value, for hints; 0: hints only name the limits
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};
struct DecimalRange {
  double least = 0;
  double most = 1e30;
  friend bool operator==(const DecimalRange&, const DecimalRange&) = default;
};

// One kind of value that a place in a file accepts.
struct SchemaValue {
  enum class Kind : std::uint8_t {
    kText,
    kWord,  // one of `words`
    kInteger,
    kDecimal,
    kBoolean,
    kVersion,
    kBytes,
    kBandwidth,
    kTime,
    kFlopRate,
    kSequence,  // of items that match `items`
    kMapping,   // with `keys`
  };
  Kind kind = Kind::kText;
  std::vector<std::string> words{};
  IntegerRange integers{};
  DecimalRange decimals{};
  friend bool operator==(const SchemaValue&, const SchemaValue&) = default;
};

// The values that one place in a file accepts: those in `values`, and those that one of the schemas
// in `others` accepts.
class Schema {
 public:
  struct Key {
    std::string name;
    int required = 0;  // number of mappings read here that required it
    std::unique_ptr<Schema> value;
  };

  // The functions that readers call to record keys and values.
  void Take(SchemaValue value);
  void TakeMapping();
  Schema& TakeKey(std::string_view key, Need need);
  Schema& TakeItems();  // of a sequence

  // Adds and returns another accepted form, which has separate keys.
  Schema& AddOther() { return *others_.emplace_back(std::make_unique<Schema>()); }
  // Returns the schema of a recorded key.
  Schema& At(std::string_view key);
  // Sets the only value that is accepted.
  void TakeOnly(SchemaValue value) { values_ = {std::move(value)}; }
  // Sets the only value of a key that every mapping must have. The key distinguishes the accepted
  // forms.
  void Fix(std::string_view key, SchemaValue value);
  // Sets texts for people: the meaning of the value, and its default as documents state it.
  void Describe(std::string description, std::string default_value) {
    description_ = std::move(description);
    default_value_ = std::move(default_value);
  }

  const std::vector<SchemaValue>& values() const { return values_; }
  const std::vector<Key>& keys() const { return keys_; }  // in reading order
  // Returns whether all mappings that were read here required the key.
  bool Requires(const Key& key) const { return key.required == mappings_; }
  const Schema* items() const { return items_.get(); }
  const std::vector<std::unique_ptr<Schema>>& others() const { return others_; }
  const std::string& description() const { return description_; }
  const std::string& default_value() const { return default_value_; }

 private:
  std::vector<Key>::iterator Find(std::string_view key);

  std::vector<SchemaValue> values_;
  std::vector<Key> keys_;
  int mappings_ = 0;
  std::unique_ptr<Schema> items_;
  std::vector<std::unique_ptr<Schema>> others_;
  std::string description_, default_value_;
};

}  // namespace stepcast::scenario
