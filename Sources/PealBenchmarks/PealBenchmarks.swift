@main
struct PealBenchmarks {
    static func main() {}
}
