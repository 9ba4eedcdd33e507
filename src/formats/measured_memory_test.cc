#include "src/formats/measured_memory.h"

#include <cstddef>

#include "gtest/gtest.h"

namespace stepcast::formats {
namespace {

// A segment of 20 MiB whose first 4 MiB are in use, written by Python's pickle.dumps like
// _dump_snapshot. Earlier, 10 MiB next to the 4 were freed, and a segment of 2 MiB with a block of
// 1000 bytes was allocated and freed. The peaks are therefore 14 MiB handed out and 22 MiB held.
constexpr char kSnapshot[] =
    "\x80\x04\x95\x12\x02\x00\x00\x00\x00\x00\x00\x7d\x94\x28\x8c\x08\x73\x65\x67\x6d"
    "\x65\x6e\x74\x73\x94\x5d\x94\x7d\x94\x28\x8c\x06\x64\x65\x76\x69\x63\x65\x94\x4b"
    "\x00\x8c\x07\x61\x64\x64\x72\x65\x73\x73\x94\x4d\x00\x10\x8c\x0a\x74\x6f\x74\x61"
    "\x6c\x5f\x73\x69\x7a\x65\x94\x4a\x00\x00\x40\x01\x8c\x0e\x61\x6c\x6c\x6f\x63\x61"
    "\x74\x65\x64\x5f\x73\x69\x7a\x65\x94\x4a\x00\x00\x40\x00\x8c\x06\x73\x74\x72\x65"
    "\x61\x6d\x94\x4b\x00\x8c\x0c\x73\x65\x67\x6d\x65\x6e\x74\x5f\x74\x79\x70\x65\x94"
    "\x8c\x05\x6c\x61\x72\x67\x65\x94\x8c\x06\x62\x6c\x6f\x63\x6b\x73\x94\x5d\x94\x28"
    "\x7d\x94\x28\x68\x05\x4d\x00\x10\x8c\x04\x73\x69\x7a\x65\x94\x4a\x00\x00\x40\x00"
    "\x8c\x0e\x72\x65\x71\x75\x65\x73\x74\x65\x64\x5f\x73\x69\x7a\x65\x94\x4a\x00\x00"
    "\x40\x00\x8c\x05\x73\x74\x61\x74\x65\x94\x8c\x10\x61\x63\x74\x69\x76\x65\x5f\x61"
    "\x6c\x6c\x6f\x63\x61\x74\x65\x64\x94\x8c\x06\x66\x72\x61\x6d\x65\x73\x94\x5d\x94"
    "\x75\x7d\x94\x28\x68\x05\x4a\x00\x10\x40\x00\x68\x0e\x4a\x00\x00\x00\x01\x68\x10"
    "\x8c\x08\x69\x6e\x61\x63\x74\x69\x76\x65\x94\x75\x65\x75\x61\x8c\x0d\x64\x65\x76"
    "\x69\x63\x65\x5f\x74\x72\x61\x63\x65\x73\x94\x5d\x94\x5d\x94\x28\x7d\x94\x28\x8c"
    "\x06\x61\x63\x74\x69\x6f\x6e\x94\x8c\x0d\x73\x65\x67\x6d\x65\x6e\x74\x5f\x61\x6c"
    "\x6c\x6f\x63\x94\x68\x0e\x4a\x00\x00\x40\x01\x75\x7d\x94\x28\x68\x1a\x8c\x05\x61"
    "\x6c\x6c\x6f\x63\x94\x68\x0e\x4a\x00\x00\x40\x00\x75\x7d\x94\x28\x68\x1a\x68\x1d"
    "\x68\x0e\x4a\x00\x00\xa0\x00\x75\x7d\x94\x28\x68\x1a\x8c\x0e\x66\x72\x65\x65\x5f"
    "\x72\x65\x71\x75\x65\x73\x74\x65\x64\x94\x68\x0e\x4a\x00\x00\xa0\x00\x75\x7d\x94"
    "\x28\x68\x1a\x8c\x0e\x66\x72\x65\x65\x5f\x63\x6f\x6d\x70\x6c\x65\x74\x65\x64\x94"
    "\x68\x0e\x4a\x00\x00\xa0\x00\x75\x7d\x94\x28\x68\x1a\x68\x1b\x68\x0e\x4a\x00\x00"
    "\x20\x00\x75\x7d\x94\x28\x68\x1a\x68\x1d\x68\x0e\x4d\xe8\x03\x75\x7d\x94\x28\x68"
    "\x1a\x68\x20\x68\x0e\x4d\xe8\x03\x75\x7d\x94\x28\x68\x1a\x68\x22\x68\x0e\x4d\xe8"
    "\x03\x75\x7d\x94\x28\x68\x1a\x8c\x0c\x73\x65\x67\x6d\x65\x6e\x74\x5f\x66\x72\x65"
    "\x65\x94\x68\x0e\x4a\x00\x00\x20\x00\x75\x65\x61\x8c\x12\x61\x6c\x6c\x6f\x63\x61"
    "\x74\x6f\x72\x5f\x73\x65\x74\x74\x69\x6e\x67\x73\x94\x7d\x94\x8c\x13\x65\x78\x70"
    "\x61\x6e\x64\x61\x62\x6c\x65\x5f\x73\x65\x67\x6d\x65\x6e\x74\x73\x94\x89\x73\x75"
    "\x2e";

// The same without events.
constexpr char kQuiet[] =
    "\x80\x04\x95\x3a\x01\x00\x00\x00\x00\x00\x00\x7d\x94\x28\x8c\x08\x73\x65\x67\x6d"
    "\x65\x6e\x74\x73\x94\x5d\x94\x7d\x94\x28\x8c\x06\x64\x65\x76\x69\x63\x65\x94\x4b"
    "\x00\x8c\x07\x61\x64\x64\x72\x65\x73\x73\x94\x4d\x00\x10\x8c\x0a\x74\x6f\x74\x61"
    "\x6c\x5f\x73\x69\x7a\x65\x94\x4a\x00\x00\x40\x01\x8c\x0e\x61\x6c\x6c\x6f\x63\x61"
    "\x74\x65\x64\x5f\x73\x69\x7a\x65\x94\x4a\x00\x00\x40\x00\x8c\x06\x73\x74\x72\x65"
    "\x61\x6d\x94\x4b\x00\x8c\x0c\x73\x65\x67\x6d\x65\x6e\x74\x5f\x74\x79\x70\x65\x94"
    "\x8c\x05\x6c\x61\x72\x67\x65\x94\x8c\x06\x62\x6c\x6f\x63\x6b\x73\x94\x5d\x94\x28"
    "\x7d\x94\x28\x68\x05\x4d\x00\x10\x8c\x04\x73\x69\x7a\x65\x94\x4a\x00\x00\x40\x00"
    "\x8c\x0e\x72\x65\x71\x75\x65\x73\x74\x65\x64\x5f\x73\x69\x7a\x65\x94\x4a\x00\x00"
    "\x40\x00\x8c\x05\x73\x74\x61\x74\x65\x94\x8c\x10\x61\x63\x74\x69\x76\x65\x5f\x61"
    "\x6c\x6c\x6f\x63\x61\x74\x65\x64\x94\x8c\x06\x66\x72\x61\x6d\x65\x73\x94\x5d\x94"
    "\x75\x7d\x94\x28\x68\x05\x4a\x00\x10\x40\x00\x68\x0e\x4a\x00\x00\x00\x01\x68\x10"
    "\x8c\x08\x69\x6e\x61\x63\x74\x69\x76\x65\x94\x75\x65\x75\x61\x8c\x0d\x64\x65\x76"
    "\x69\x63\x65\x5f\x74\x72\x61\x63\x65\x73\x94\x5d\x94\x5d\x94\x61\x8c\x12\x61\x6c"
    "\x6c\x6f\x63\x61\x74\x6f\x72\x5f\x73\x65\x74\x74\x69\x6e\x67\x73\x94\x7d\x94\x8c"
    "\x13\x65\x78\x70\x61\x6e\x64\x61\x62\x6c\x65\x5f\x73\x65\x67\x6d\x65\x6e\x74\x73"
    "\x94\x89\x73\x75\x2e";

template <std::size_t N>
std::string_view Literal(const char (&literal)[N]) {
  return {literal, N - 1};
}

std::string CodeOf(std::string_view text) {
  const auto measured = ParseMeasuredMemory(text, "file");
  return measured ? "none" : measured.error().front().code;
}

TEST(MeasuredMemory, UndoesTheEventsOfASnapshot) {
  const auto measured = ParseMeasuredMemory(Literal(kSnapshot), "snapshot.pickle");
  ASSERT_TRUE(measured.has_value()) << Format(measured.error());
  EXPECT_EQ(measured->form, "snapshot");
  EXPECT_EQ(measured->allocated, MiB(14));
  EXPECT_EQ(measured->reserved, MiB(22));
  EXPECT_FALSE(measured->at_peak.has_value());
  EXPECT_EQ(measured->notes.front(),
            "the peak is that of the last 10 events of device 0, because the snapshot has no older "
            "events");
}

TEST(MeasuredMemory, ASnapshotWithoutEventsIsOfItsMoment) {
  const auto measured = ParseMeasuredMemory(Literal(kQuiet), "snapshot.pickle");
  ASSERT_TRUE(measured.has_value()) << Format(measured.error());
  EXPECT_EQ(measured->allocated, MiB(4));
  EXPECT_EQ(measured->reserved, MiB(20));
  EXPECT_NE(measured->notes.front().find("no events"), std::string::npos);
}

// Text of torch.cuda.memory_summary(), from a recent release and from one that writes KB.
TEST(MeasuredMemory, ReadsSummaries) {
  for (const std::string unit : {"MiB", "MB "}) {
    const auto measured = ParseMeasuredMemory(
        "|===========================================================================|\n"
        "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
        "|---------------------------------------------------------------------------|\n"
        "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |\n"
        "|===========================================================================|\n"
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
        "|---------------------------------------------------------------------------|\n"
        "| Allocated memory      |   1024 " +
            unit + " |  40960 " + unit +
            " | 123456 GiB | 1 GiB |\n"
            "|       from large pool |   1023 " +
            unit + " |  40950 " + unit +
            " | 123456 GiB | 1 GiB |\n"
            "| Active memory         |   1024 " +
            unit + " |  40970 " + unit +
            " | 123456 GiB | 1 GiB |\n"
            "| GPU reserved memory   |  45056 " +
            unit + " |  45056 " + unit + " |  45056 " + unit + " |   0 B   |\n",
        "summary.txt");
    ASSERT_TRUE(measured.has_value()) << Format(measured.error());
    EXPECT_EQ(measured->form, "summary");
    EXPECT_EQ(measured->allocated, GiB(40));
    EXPECT_EQ(measured->reserved, GiB(44));
  }
}

// A zero, then parameters, optimizer states, inputs, temporaries, activations, gradients, autograd
// details and unknown. The second of three instants is the largest.
TEST(MeasuredMemory, ReadsTimelines) {
  const auto measured = ParseMeasuredMemory(
      "[[1, 2, 3], [[0, 100, 0, 0, 0, 0, 0, 0, 0], [0, 100, 200, 1, 2, 40, 30, 3, 4], "
      "[0, 100, 200, 0, 0, 0, 0, 0, 0]]]",
      "timeline.json");
  ASSERT_TRUE(measured.has_value()) << Format(measured.error());
  EXPECT_EQ(measured->form, "timeline");
  EXPECT_EQ(measured->allocated, Bytes(380));
  EXPECT_FALSE(measured->reserved.has_value());
  EXPECT_EQ(*measured->at_peak,
            (std::array<Bytes, kMeasuredCategories>{Bytes(100), Bytes(30), Bytes(200), Bytes(50)}));
}

TEST(MeasuredMemory, SaysWhatItDoesNotRead) {
  EXPECT_EQ(CodeOf("hello"), "snapshot.unknown-form");
  EXPECT_EQ(CodeOf(""), "snapshot.unknown-form");
  EXPECT_EQ(CodeOf("[[1], [[0, 0, 0, 0, 0, 0, 0, 0, 0]]]"), "snapshot.no-peak");
  EXPECT_EQ(CodeOf("{\"traceEvents\": []}"), "snapshot.no-peak");
  EXPECT_EQ(CodeOf("[[1], [[0"), "file.not-json");
  EXPECT_EQ(CodeOf("|  PyTorch CUDA memory summary, device ID 0  |\n"), "snapshot.no-peak");
  EXPECT_EQ(CodeOf(Literal(kSnapshot).substr(0, 100)), "pickle.cut-off");
  EXPECT_EQ(CodeOf(std::string_view("\x80\x04}.", 4)), "snapshot.no-peak");
}

// All segments share a list of blocks: the file is small, but describes a lot of memory.
TEST(MeasuredMemory, WhatIsSharedIsCountedEachTime) {
  const auto text = [](std::string_view word) {
    return "\x8c" + std::string(1, static_cast<char>(word.size())) + std::string(word);
  };
  const auto snapshot = [&](std::size_t blocks, std::size_t segments) {
    std::string bytes = "\x80\x04]\x94(" + std::string(blocks, 'N') + "e0}(";
    bytes += text("segments") + "](";
    for (std::size_t i = 0; i < segments; ++i) {
      bytes += "}" + text("blocks") + "h" + std::string(1, '\0') + "s";
    }
    return bytes + "eu.";
  };
  EXPECT_EQ(CodeOf(snapshot(5000, 900)), "snapshot.no-peak");
  EXPECT_EQ(CodeOf(snapshot(5000, 1000)), "pickle.too-large");
}

}  // namespace
}  // namespace stepcast::formats
