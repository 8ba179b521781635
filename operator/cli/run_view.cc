#include "operator/cli/run_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "operator/cli/progress.h"

namespace ddp::cli {
namespace {

constexpr std::chrono::seconds kBetweenLines{5};
constexpr size_t kDefaultColumns = 100;

size_t Columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1U : kDefaultColumns;
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size < 0 && errno != EINTR) {
      return;  // nobody reads any more; the training goes on
    }
    text.remove_prefix(size > 0 ? static_cast<size_t>(size) : 0);
  }
}

}  // namespace

RunView::RunView(std::string job) : job_(std::move(job)), terminal_(isatty(STDERR_FILENO) == 1) {}

void RunView::OnEvent(const job::Event& event) {
  Say(fmt::format("{}{}", event.warning ? "warning: " : "", event.message));
}

void RunView::OnOutput(std::string_view text) {
  Clear();
  WriteAll(STDOUT_FILENO, text);
  line_open_ = !text.ends_with('\n');
  Draw();
}

void RunView::OnAttempt(int /*attempt*/) {
  Clear();
  progress_.reset();
  last_line_.reset();
}

void RunView::OnStopping(bool at_once) {
  Say(at_once ? "stopping at once" : "stopping; Ctrl-C again kills at once");
}

void RunView::OnProgress(const job::ProgressReply& progress) {
  const bool is_new = !progress_ || !(*progress_ == progress);
  progress_ = progress;
  if (terminal_) {
    Draw();
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (is_new && (!last_line_ || now - *last_line_ >= kBetweenLines)) {
    last_line_ = now;
    Say(Describe(progress.progress, progress.epochs));
  }
}

void RunView::Say(std::string_view line) {
  Clear();
  WriteAll(STDERR_FILENO, fmt::format("[{}] {}\n", job_, line));
  Draw();
}

void RunView::Finish() { Clear(); }

void RunView::Draw() {
  // A bar in the middle of a line that rank 0 has not ended would tear it.
  if (!terminal_ || !progress_ || line_open_) {
    return;
  }
  WriteAll(STDERR_FILENO,
           fmt::format("\r\033[K{}", Bar(progress_->progress, progress_->epochs, Columns())));
  drawn_ = true;
}

void RunView::Clear() {
  if (drawn_) {
    WriteAll(STDERR_FILENO, "\r\033[K");
    drawn_ = false;
  }
}

}  // namespace ddp::cli
