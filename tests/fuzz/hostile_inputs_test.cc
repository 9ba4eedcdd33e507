// Malicious inputs, and damaged copies of the shipped files, through every reader: no crash, no
// hang, and always a diagnostic. read_inputs.cc checks the invariants; the fuzz targets search for
// more such inputs.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fuzz/read_inputs.h"

namespace stepcast::fuzz {
namespace {

std::string Repeated(std::string_view text, int count) {
  std::string repeated;
  repeated.reserve(text.size() * static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

std::vector<std::string> HostileTexts() {
  constexpr int kMany = 50'000;
  std::vector<std::string> texts = {
      "",
      " ",
      "\n",
      "\t",
      "~",
      "null",
      "true",
      "0",
      "\"",
      "'",
      ":",
      "-",
      "?",
      "? ? ?",
      "- - -",
      "---",
      "--- ---",
      "...",
      "%",
      "%YAML 9.9\n---\na: 1",
      "%TAG ! x\n---\n!a b",
      "&",
      "*",
      "&a *a",
      "&a [*a]",
      "a: &a\nb: *a",
      "<<: {a: 1}",
      "!",
      "!!",
      "!!binary aGk=",
      "!<tag> x",
      "|",
      ">",
      "|9",
      "|-\n x",
      "[",
      "]",
      "{",
      "}",
      "{]",
      "[}",
      "[,]",
      "{,}",
      "{:}",
      "{a: [b: {c",
      "{\"a\":1}}",
      "@",
      "`",
      "a: 1\n a: 2",
      "a:\n  - b\n c",
      "\"\\x\"",
      "\"\\u\"",
      "\"\\uD800\"",
      "\"\\U00110000\"",
      "\"\\UFFFFFFFF\"",
      std::string("a\0b: 1", 6),
      "\xFF\xFE"
      "a",
      std::string("\xFF\xFE"
                  "a\0:\0 \0001\0",
                  10),
      "\xEF\xBB\xBF",
      "\xEF\xBB\xBF"
      "a: 1",
      "\xC0\x80: 1",
      "a: \x1b[2J",
      "a: \xF0\x9F\x92\xA9",
      "stepcast: 99999999999999999999999999",
      "stepcast: -0",
      "stepcast: 1e999",
      "stepcast: .inf",
      "stepcast: 0x1",
      "model: /dev/zero",
      "model: /",
      "model: ..",
      "model: \"a\\0b\"",
      "model: " + std::string(100'000, 'x'),
      "model: {kind: layers, layers: [" + Repeated("{},", 1000) + "]}",
      "#--set =\n#--set a\n#--set a=\n#--set .=1\n#--set a.b.c.d=[\nstepcast: 1",
      "#--set " + Repeated("a.", kMany) + "b=1\nstepcast: 1",
      "#--set stepcast.a=1\n#--set stepcast.0=1\nstepcast: [1]",
      "<system/>",
      "<system version=\"1\"><cpu/></system>",
      "<!DOCTYPE a [<!ENTITY b \"c\">]><system>&b;</system>",
      Repeated("<pci>", kMany),
      "<system><cpu numaid=\"0\">" + Repeated("<pci busid=\"0\">", kMany),
      "<system><cpu numaid=\"0\">" + Repeated("<pci busid=\"0\">", 100) + Repeated("</pci>", 100) +
          "</cpu></system>",
      "GPU0 GPU1\nGPU0 X NV99999\nGPU1 NV99999 X\n",
      "GPU0\nGPU0 X\n",
      "# size count time\n 1 1 1\n",
      "# size count type time algbw busbw\n 9223372036854775807 1 x 1e300 nan inf\n",
      "{\"results\": [{\"size\": 1e300}, [], null, {\"size\": -1}]}",
      Repeated("[", kMany),
      Repeated("{", kMany),
      Repeated("[[]", kMany),
      Repeated("{a: ", kMany),
      Repeated("- ", kMany),
      Repeated("? ", kMany),
      Repeated("a: ", kMany),
      Repeated("&a ", kMany),
      Repeated("!a ", kMany),
      Repeated("\"", kMany + 1),
      Repeated("'", kMany + 1),
      Repeated("a:\n", 1000),
      Repeated("---\n", kMany),
      Repeated("#", kMany),
      Repeated(" ", kMany) + "a: 1",
      "a: " + Repeated("9", kMany),
      "a: |\n" + Repeated(" \n", kMany),
  };
  // The right keys with values of every wrong kind.
  for (const char* key :
       {"stepcast", "name",        "model",         "cluster",    "calibration", "software",
        "training", "parallelism", "data_parallel", "kind",       "layers",      "node",
        "fabric",   "devices",     "link",          "gpu",        "memory",      "provenance",
        "kernels",  "links",       "collectives",   "hidden_size"}) {
    for (const char* value : {"", "1", "-1", "x", "''", "[]", "{}", "[[]]", "{a: }", "[1, {}]",
                              "99999999999999999999", "1 GB/s", "0 B", "true"}) {
      texts.push_back(std::string(key) + ": " + value);
    }
  }
  return texts;
}

std::vector<std::string> TextsIn(const std::vector<std::string>& folders,
                                 const std::vector<std::string>& extensions) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& folder : folders) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string extension = entry.path().extension().string();
      if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) {
        paths.push_back(entry.path());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

std::vector<std::string> ShippedTexts() {
  return TextsIn({"models", "topologies", "calibration", "scenarios", "tests/fuzz"},
                 {".yaml", ".json", ".xml", ".log", ".txt"});
}

void ReadAll(std::string_view text) {
  ReadScenario(text);
  ReadModel(text);
  ReadConfig(text);
  ReadTopology(text);
  ReadCalibration(text);
  ReadNcclTopology(text);
  ReadNvidiaSmi(text);
  ReadNcclTests(text);
  ReadKineto(text);
  ReadMeasurements(text);
  ReadMeasuredMemory(text);
  ReadSchedule(text);
  ReadQuestion(text);
  ReadCalibrationState(text);
}

void ReadForeign(std::string_view text) {
  for (const auto read : {ReadToml, ReadShell, ReadPython, ReadForeignYaml}) read(text);
}

TEST(HostileInputs, AreAllAnswered) {
  for (const std::string& text : HostileTexts()) ReadAll(text);
}

TEST(HostileInputs, ShippedFilesAreReadByEveryReader) {
  const std::vector<std::string> texts = ShippedTexts();
  EXPECT_GT(texts.size(), 20u) << "the shipped files are not where they should be";
  for (const std::string& text : texts) ReadAll(text);
}

// The text cut short, with a character lost, changed or doubled, or with two lines swapped, like
// editing mistakes.
std::string Bent(const std::string& text, int variant, std::mt19937& random) {
  const auto below = [&](std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
  };
  constexpr std::string_view kReplacements = ":{}[],'\"#&*!|>%@-? \n\t0919.xB\x80";
  std::string bent = text;
  const std::size_t at = below(bent.size());
  switch (variant % 5) {
    case 0:
      bent.resize(at);
      break;
    case 1:
      bent.erase(at, 1 + below(3));
      break;
    case 2:
      bent[at] = kReplacements[below(kReplacements.size())];
      break;
    case 3:
      bent.insert(at, bent.substr(below(bent.size()), below(40)));
      break;
    default: {
      const std::size_t begin = bent.rfind('\n', at);
      const std::size_t end = bent.find('\n', at);
      if (begin != std::string::npos && end != std::string::npos && begin < end) {
        bent += bent.substr(begin, end - begin) + "\n";
        bent.erase(begin, end - begin);
      }
    }
  }
  return bent;
}

constexpr unsigned kSeed = 20260101;  // fixed: the same inputs on every run

TEST(HostileInputs, BentShippedFilesAreAllAnswered) {
  std::mt19937 random(kSeed);
  for (const std::string& text : ShippedTexts()) {
    for (int variant = 0; variant < 20; ++variant) ReadAll(Bent(text, variant, random));
  }
}

// Deep nesting, and variables that double one another, in the syntaxes of other programs.
std::vector<std::string> HostileForeignTexts() {
  constexpr int kMany = 20'000;
  const std::string run = "\ntorchrun pretrain_gpt.py --num-layers ";
  const std::string python = "import torchtitan\ndef a():\n    return Trainer.Config(training=";
  std::string references = "base_model: ${a59}\na0: xxxxxxxx\n";
  for (int i = 1; i < 60; ++i) {
    const std::string below = "${a" + std::to_string(i - 1) + "}";
    references += "a" + std::to_string(i) + ": " + below + below + "\n";
  }
  return {
      "A=xxxxxxxx\n" + Repeated("A=$A$A\n", 60) + run + "$A",
      "A=(x x)\n" + Repeated("A=(${A[@]} ${A[@]})\n", 60) + run + "${A[@]}",
      run + Repeated("${A:-", kMany),
      run + Repeated("${A:-", kMany) + Repeated("}", kMany),
      run + "$((" + Repeated("(", kMany) + "1" + Repeated(")", kMany) + "))",
      run + "$((9223372036854775807*9)) --a $((1/0)) --b $((-9223372036854775807-1)) --c $((1%0))",
      "A=" + Repeated("$(", kMany),
      Repeated("{ ", kMany),
      Repeated("(", kMany),
      Repeated("`", kMany + 1),
      Repeated("if true; then\n", kMany) + run + "1",
      Repeated("cat <<A <<B <<C\n", 1000),
      python + Repeated("f(", kMany),
      python + Repeated("[", kMany) + Repeated("]", kMany) + ")",
      python + "T(seq_len=" + Repeated("9*", kMany) + "1))",
      python + "T(seq_len=" + Repeated("-", kMany) + "1))",
      python + "T(seq_len=" + Repeated("(", kMany) + "1" + Repeated(")", kMany) + "))",
      Repeated("a.", kMany) + "b = 1",
      "[" + Repeated("a.", kMany) + "b]\nc = 1",
      "a = " + Repeated("{a = ", kMany),
      references + "sequence_len: 1\nmicro_batch_size: 1\n",
      "base_model: x\nsequence_len: ${multiply:9223372036854775807,9}\nmicro_batch_size: ${a\n",
      "base_model: x\nsequence_len: ${sequence_len}\nmicro_batch_size: ${.micro_batch_size}\n",
  };
}

TEST(HostileInputs, OtherProgramsFilesAreAllAnswered) {
  for (const std::string& text : HostileTexts()) ReadForeign(text);
  for (const std::string& text : HostileForeignTexts()) ReadForeign(text);
  std::mt19937 random(kSeed);
  const std::string corpus = "tests/fuzz/corpus/";
  const std::vector<std::string> texts =
      TextsIn({corpus + "toml", corpus + "shell", corpus + "python", corpus + "foreign_yaml"},
              {".toml", ".sh", ".py", ".yaml"});
  EXPECT_EQ(texts.size(), 5u);
  for (const std::string& text : texts) {
    ReadForeign(text);
    for (int variant = 0; variant < 200; ++variant) ReadForeign(Bent(text, variant, random));
  }
}

}  // namespace
}  // namespace stepcast::fuzz
