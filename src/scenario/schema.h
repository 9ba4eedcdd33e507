#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The keys and values that a reader accepts. A reader (document.h) records every key that it
// requests, so the schema always matches the reader. Editors use schemas for completion
// (report/dumps.h).
namespace stepcast::scenario {

enum class Need : std::uint8_t { kRequired, kOptional };

// A range with inclusive limits. The upper limits ensure that sums of values fit in 64 bits.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 1'000'000'000'000'000;
  std::int64_t example = 0;  // a typical value, for hints; 0: hints have only the limits
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};
struct DecimalRange {
  double least = 0;
  double most = 1e30;
  friend bool operator==(const DecimalRange&, const DecimalRange&) = default;
};

// A kind of value that a key or list item accepts.
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
    kSequence,  // a sequence of items that match `items`
    kMapping,   // a mapping with `keys`
  };
  Kind kind = Kind::kText;
  std::vector<std::string> words{};
  IntegerRange integers{};
  DecimalRange decimals{};
  friend bool operator==(const SchemaValue&, const SchemaValue&) = default;
};

// The values that a key or list item accepts: the values in `values`, and the values of each schema
// in `others`.
class Schema {
 public:
  struct Key {
    std::string name;
    int required = 0;  // number of recorded mappings that required the key
    std::unique_ptr<Schema> value;
  };

  // The functions that readers call to record keys and values.
  void Take(SchemaValue value);
  void TakeMapping();
  Schema& TakeKey(std::string_view key, Need need);
  Schema& TakeItems();  // records the items of a sequence

  // Adds and returns a schema for a mapping with other keys, which is also accepted.
  Schema& AddOther() { return *others_.emplace_back(std::make_unique<Schema>()); }
  // Returns the schema of a recorded key.
  Schema& At(std::string_view key);
  // Sets the only accepted value.
  void TakeOnly(SchemaValue value) { values_ = {std::move(value)}; }
  // Sets the only accepted value of a required key that distinguishes the accepted mappings.
  void Fix(std::string_view key, SchemaValue value);
  // Sets the description of the value and of its default, for documents.
  void Describe(std::string description, std::string default_value) {
    description_ = std::move(description);
    default_value_ = std::move(default_value);
  }

  const std::vector<SchemaValue>& values() const { return values_; }
  const std::vector<Key>& keys() const { return keys_; }  // keys in reading order
  // Returns whether all recorded mappings required the key.
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
