mod engine;
mod journal;
mod model;
fn main() {}
