//! The message handlers of a Reflector.

use actix::{ActorContext, Context, Handler};

use super::Reflector;
use super::messages::Stop;

impl Handler<Stop> for Reflector {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Reflector>) {
        context.stop();
    }
}
