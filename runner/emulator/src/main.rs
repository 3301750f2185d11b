mod model;
fn main() {}
