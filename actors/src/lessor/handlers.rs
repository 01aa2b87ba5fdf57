//! The message handlers of a Lessor.

use actix::{ActorContext, Context, Handler};

use super::Lessor;
use super::messages::Stop;

impl Handler<Stop> for Lessor {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Lessor>) {
        context.stop();
    }
}
