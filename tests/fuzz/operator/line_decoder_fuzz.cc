// LineDecoder under arbitrary bytes in arbitrary pieces: it must give the lines that a simple split
// of the whole text gives, and refuse exactly when a line is over its cap. The first bytes of an
// input choose the cap and the pieces.
#include "operator/kube/line_decoder.h"
#include "tests/fuzz/fuzz.h"

namespace {

struct Expected {
  std::vector<std::string> lines;
  bool refused = false;
};

Expected Split(std::string_view text, size_t cap) {
  Expected expected;
  for (;;) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.size() > cap) {
      expected.refused = true;
      return expected;
    }
    if (end == std::string_view::npos) {
      return expected;
    }
    text.remove_prefix(end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!line.empty()) {
      expected.lines.emplace_back(line);
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const size_t cap = data[0];
  const size_t step = data[1] % 16U + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Expected expected = Split(text, cap);

  ddp::kube::LineDecoder decoder(cap);
  std::vector<std::string> lines;
  bool refused = false;
  for (size_t at = 0; at < text.size() && !refused; at += step) {
    refused = !decoder.Feed(text.substr(at, step),
                            [&](std::string_view line) { lines.emplace_back(line); });
    DDP_CHECK(decoder.pending() <= cap, "holds no more than its cap");
  }
  DDP_CHECK(refused == expected.refused, "refuses exactly what is over the cap");
  DDP_CHECK(lines == expected.lines, "gives the lines of the text");
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  const std::string event = R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})";
  return {"\xff\x03" + event + "\n" + event + "\r\n\n" + event.substr(0, 20),
          "\x04\x01"
          "1234\n12\n345\n",
          "\x04\x02"
          "12345\n"};
}
