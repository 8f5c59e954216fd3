# Builds the program from source: brew install --build-from-source ./loligo.rb
class Loligo < Formula
  desc "Ceph-compatible client and server without coarse locks"
  homepage "https://github.com/loligo-storage/loligo"
  url "https://github.com/loligo-storage/loligo.git", tag: "v0.1.0"
  license any_of: ["MIT", "Apache-2.0"]
  head "https://github.com/loligo-storage/loligo.git", branch: "main"

  depends_on "rust" => :build
  # Locks wait on the futexes of Linux, and the server's store uses io_uring (docs/limits.md).
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/apps/cli")
    generate_completions_from_executable(bin/"loligo", "completions")
    mkdir "manual"
    system bin/"loligo", "manual", "manual"
    man1.install Dir["manual/*"]
  end

  test do
    port = free_port
    arguments = ["serve", "--data", testpath/"data", "--store", "memory", "--pool", "p", "--mon-addr", "127.0.0.1:#{port}"]
    server = IO.popen([bin/"loligo", *arguments])
    assert_match(/^ready /, server.gets)
    client = "#{bin}/loligo -c #{testpath}/data/ceph.conf -p p"
    pipe_output("#{client} put greeting -", "hello", 0)
    assert_equal "hello", shell_output("#{client} get greeting -")
  ensure
    Process.kill("TERM", server.pid) if server
  end
end
