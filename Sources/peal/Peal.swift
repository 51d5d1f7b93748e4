@main
struct Peal {
    static func main() {}
}
